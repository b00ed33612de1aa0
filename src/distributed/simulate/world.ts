// What all actors of one simulation share.

import type { NewHasher } from "../node/outbox.js";
import type { ModelFingerprint } from "../protocol/fingerprint.js";
import type { MergeSettings } from "../protocol/master-contract.js";
import type { MemoryRepository } from "../transports/memory.js";
import type { Auditor } from "./auditor.js";
import type { FaultInjector } from "./faults.js";
import type { InvariantName, Violation } from "./invariants.js";
import type { Network } from "./network.js";
import { SimulatedProcess } from "./process.js";
import { RandomStream } from "./random.js";
import type { ToyWeights } from "./toy-model.js";
import type { VirtualTime } from "./virtual-time.js";

export const FINGERPRINT: ModelFingerprint = { architecture: "toy", d_model: 8 };
export const POLL_MS = 1500;

export interface World {
  readonly seed: number;
  readonly time: VirtualTime;
  readonly repository: MemoryRepository;
  readonly network: Network;
  readonly faults: FaultInjector;
  readonly auditor: Auditor;
  readonly settings: MergeSettings;
  readonly initial: ToyWeights;
  readonly newHasher: NewHasher;
  readonly violations: Violation[];
  readonly counts: Map<string, number>;
  log(who: string, what: string): void;
  violate(invariant: InvariantName, message: string): void;
}

export function count({ counts }: World, what: string, by = 1): void {
  counts.set(what, (counts.get(what) ?? 0) + by);
}

/** A new process on a machine whose clock may be wrong. */
export function boot(world: World, machine: string, life: number): SimulatedProcess {
  const random = new RandomStream(world.seed, `clock of ${machine} ${life}`);
  const isWrong = world.faults.has("skew");
  const skew = isWrong
    ? { offsetMs: random.between(-1e8, 1e8), rate: random.between(0.7, 1.4) }
    : { offsetMs: 0, rate: 1 };
  world.log(machine, `process ${life} starts`);
  return new SimulatedProcess(machine, world.time, skew);
}
