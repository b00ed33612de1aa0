// The simulation must be able to find faults: each of these, planted in a part of the product, violates an invariant
// within 50 seeds. What is planted replaces exports of the part's module; the product has no hooks for it.

import { afterEach, expect, test, vi } from "vitest";
import { newSha256 } from "../../../src/distributed/node/outbox.node.js";
import type { InvariantName } from "../../../src/distributed/simulate/index.js";
import type { CallOptions, CommitRequest, Transport } from "../../../src/distributed/transports/contract.js";

type Commit = typeof import("../../../src/distributed/node/aggregator-commit.js");
type Kernels = typeof import("../../../src/distributed/wire/outer-kernels.js");
type LedgerModule = typeof import("../../../src/distributed/protocol/ledger.js");
type Master = typeof import("../../../src/distributed/protocol/master.js");
type Memory = typeof import("../../../src/distributed/transports/memory.js");
type Merge = typeof import("../../../src/distributed/wire/write-outer-step.js");
type Restart = typeof import("../../../src/distributed/node/restart.js");
type Round = typeof import("../../../src/distributed/protocol/round.js");
type Send = typeof import("../../../src/distributed/node/send-delta.js");
type State = typeof import("../../../src/distributed/node/model-state.js");
type Summary = typeof import("../../../src/distributed/wire/delta-summary.js");

interface Planted {
  readonly fault: string;
  readonly invariant: InvariantName;
  plant(): void;
}

const replaced: string[] = [];

/** Replaces exports of a module for everything that is imported from now on. */
function replace<Module extends object>(path: string, change: (original: Module) => Partial<Module>): void {
  const module = `../../../src/distributed/${path}`;
  replaced.push(module);
  vi.doMock(module, async (importOriginal) => {
    const original = await importOriginal<Module>();
    return { ...original, ...change(original) };
  });
}

const planted: readonly Planted[] = [
  {
    fault: "ledger: what earlier versions counted is not looked up",
    invariant: "once",
    plant: () =>
      replace<LedgerModule>("protocol/ledger.js", () => ({
        findByContentId: () => undefined,
        findBySha256: () => undefined,
        findApplied: () => undefined,
      })),
  },
  {
    fault: "compare-and-swap: commits go on top of whatever is the head",
    invariant: "order",
    plant: () =>
      replace<Memory>("transports/memory.js", ({ MemoryTransport }) => ({
        MemoryTransport: class extends MemoryTransport {
          override async commit(request: CommitRequest, options?: CallOptions): Promise<string> {
            return super.commit({ ...request, parent: await this.head() }, options);
          }
        },
      })),
  },
  {
    fault: "finite check: NaN and infinity pass",
    invariant: "finite",
    plant: () => {
      replace<Summary>("wire/delta-summary.js", ({ describeDelta }) => ({
        describeDelta: async (...args) => {
          const found = await describeDelta(...args);
          return { ...found, isFinite: true, norm: Number.isFinite(found.norm) ? found.norm : 1 };
        },
      }));
      replace<Kernels>("wire/outer-kernels.js", ({ portableKernels }) => ({
        portableKernels: {
          ...portableKernels,
          advance: (...args) => {
            portableKernels.advance(...args);
            return true;
          },
          subtractScaled: (...args) => {
            portableKernels.subtractScaled(...args);
            return true;
          },
        },
      }));
    },
  },
  {
    fault: "rebase: an install drops deltas that the version does not contain",
    invariant: "local",
    plant: () =>
      replace<State>("node/model-state.js", ({ subtractDeltas }) => ({
        subtractDeltas: (global, _deltas, like) => subtractDeltas(global, [], like),
      })),
  },
  {
    fault: "re-read after ambiguity: a delta whose commit is in doubt is taken for sent",
    invariant: "reaches",
    plant: () =>
      replace<Send>("node/send-delta.js", ({ sendDelta }) => ({
        sendDelta: (transport, ...rest) => {
          const trusting: Transport = Object.create(transport, {
            commit: {
              value: (...args: Parameters<Transport["commit"]>) =>
                transport.commit(...args).catch((error: unknown) => {
                  if ((error as { problem?: unknown }).problem !== "ambiguous") throw error;
                  return "";
                }),
            },
            head: { value: transport.head.bind(transport) },
            list: { value: transport.list.bind(transport) },
          });
          return sendDelta(trusting, ...rest);
        },
      })),
  },
  {
    fault: "re-read after ambiguity: a master takes a commit in doubt for made",
    invariant: "live",
    plant: () =>
      replace<Commit>("node/aggregator-commit.js", ({ commitChecked }) => ({
        commitChecked: (transport, clock, request, signal) => {
          let last = "";
          const onTrouble = (problem: string, message: string) => {
            last = problem;
            request.onTrouble?.(problem, message);
          };
          const look: typeof request.look = (head) => (last === "ambiguous" ? "done" : request.look(head));
          return commitChecked(transport, clock, { ...request, onTrouble, look }, signal);
        },
      })),
  },
  {
    fault: "outbox: a restarted node forgets what it had to send",
    invariant: "local",
    plant: () =>
      replace<Restart>("node/restart.js", ({ planRestart }) => ({
        planRestart: (...args) => {
          const plan = planRestart(...args);
          return { ...plan, worker: { ...plan.worker, pending: [] } };
        },
      })),
  },
  {
    fault: "staleness: deltas of any age count",
    invariant: "reason",
    plant: () =>
      replace<Master>("protocol/master.js", ({ createMaster }) => ({
        createMaster: (settings, start) => createMaster({ ...settings, stalenessLimit: 1e9 }, start),
      })),
  },
  {
    fault: "version order: a number is left out",
    invariant: "order",
    plant: () =>
      replace<Round>("protocol/round.js", ({ planRound }) => ({
        planRound: (...args) => {
          const plan = planRound(...args);
          return plan.outerStep === 3 ? { ...plan, outerStep: 4 } : plan;
        },
      })),
  },
  {
    fault: "momentum: each round begins with zeros",
    invariant: "replay",
    plant: () =>
      replace<Merge>("wire/write-outer-step.js", ({ writeOuterStep }) => ({
        writeOuterStep: ({ momentum: _, ...inputs }, sinks) => writeOuterStep(inputs, sinks),
      })),
  },
  {
    fault: "duplicate after a crash: progress that a delta took is counted again from the checkpoint",
    invariant: "once",
    plant: () =>
      replace<Restart>("node/restart.js", ({ planRestart }) => ({
        planRestart: (record, checkpoint, newSalt) => {
          const plan = planRestart(record, checkpoint, newSalt);
          if (checkpoint === undefined || checkpoint.baseline === null) return plan;
          const { stepsSinceSnapshot, tokensSinceSnapshot } = checkpoint.worker;
          const worker = { ...plan.worker, stepsSinceSnapshot, tokensSinceSnapshot };
          return { ...plan, worker, baseline: checkpoint.baseline };
        },
      })),
  },
];

const SEEDS = 50;

afterEach(() => {
  for (const module of replaced.splice(0)) vi.doUnmock(module);
  vi.resetModules();
});

test.each(planted)("$fault, which violates `$invariant`", async ({ plant, invariant }) => {
  vi.resetModules();
  plant();
  const { simulateFleet } = await import("../../../src/distributed/simulate/index.js");
  const found = new Set<InvariantName>();
  for (let seed = 1; seed <= SEEDS && !found.has(invariant); seed++) {
    const { violations } = await simulateFleet({ workers: 4, rounds: 8, seed, newHasher: newSha256 });
    for (const violation of violations) found.add(violation.invariant);
  }
  expect([...found]).toContain(invariant);
});
