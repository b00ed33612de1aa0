// A whole fleet in simulated time: the product's training nodes and aggregator over a repository in memory, with faults.
// Only clock, network, disks and the trainer are replaced. Deterministic: the same options give the same events. Works
// through a script: train under faults, then without them until all is quiet, then compare.

import { invariant } from "../../util/errors.js";
import type { NewHasher } from "../node/outbox.js";
import type { MergeSettings } from "../protocol/master-contract.js";
import { MemoryRepository } from "../transports/memory.js";
import { sha256Hex } from "../transports/sha256.js";
import { Auditor } from "./auditor.js";
import { FAULT_NAMES, FaultInjector, type FaultName } from "./faults.js";
import type { Violation } from "./invariants.js";
import { Network } from "./network.js";
import { startPeers } from "./peers.js";
import { SimulatedProcess } from "./process.js";
import { RandomStream } from "./random.js";
import type { SimulationReport } from "./report.js";
import { SimulatedMaster } from "./simulated-master.js";
import { SimulatedWorker } from "./simulated-worker.js";
import { initialWeights } from "./toy-model.js";
import { VirtualTime } from "./virtual-time.js";
import { count, type World } from "./world.js";

export interface SimulationOptions {
  readonly seed: number;
  /** Default 8. */
  readonly workers?: number;
  /** Versions after which the faults end, unless the workers have done all their steps before. Default 20. */
  readonly rounds?: number;
  /** Default: all. */
  readonly faults?: readonly FaultName[];
  /** SHA-256. Default: a portable one, which is slower than a platform's own. */
  readonly newHasher?: NewHasher;
  /** The log as it grows. */
  readonly onLog?: (line: string) => void;
}

const MAX_VIOLATIONS = 20;
const QUIET_MS = 3_600_000;
/** Closing rounds for refusals that no version has told yet. */
const MAX_CLOSING_ROUNDS = 4;

/** Never rejects for what the simulated programs do: that is a violation in the report. */
export async function simulateFleet(options: SimulationOptions): Promise<SimulationReport> {
  const { seed, workers: workerCount = 8, rounds = 20, faults: faultNames = FAULT_NAMES } = options;
  invariant(workerCount >= 1 && rounds >= 1, "a fleet has at least one worker and one round");
  const random = new RandomStream(seed, "fleet");
  const innerSteps = random.whole(2, 4);
  const placesEach = Math.ceil(rounds * innerSteps * 1.2) + 4 * innerSteps;
  const world = makeWorld(options, random, { workerCount, placesEach, faultNames });
  const { time, auditor, faults } = world;
  const maxQueued = random.whole(1, 2);
  const workers = Array.from({ length: workerCount }, (_, i) => {
    // The last steps are for the closing rounds.
    const places = Array.from({ length: placesEach }, (_, k) => i * placesEach + k);
    return new SimulatedWorker(world, { nodeId: nodeName(i), innerSteps, maxQueued, places });
  });
  const trainingSteps = placesEach - MAX_CLOSING_ROUNDS * innerSteps;
  const master = new SimulatedMaster(world);
  const director = new SimulatedProcess("director", time);
  const until = async (isTrue: () => boolean, limitMs: number) => {
    const endMs = time.nowMs + limitMs;
    while (!isTrue() && time.nowMs < endMs && world.violations.length < MAX_VIOLATIONS)
      await director.sleep(500);
    return isTrue();
  };

  const script = async () => {
    for (const worker of workers) {
      time.after(random.between(0, 15_000), () => worker.start({ upTo: trainingSteps, resume: undefined }));
      if (faults.has("worker-crash")) void crashWorker(world, worker, director, trainingSteps);
    }
    time.after(random.between(0, 15_000), () => master.start());
    if (faults.has("master-crash")) void crashMaster(world, master, director);
    const peersAlive = startPeers(world);
    const isTrained = () =>
      (auditor.newest?.publication.outerStep ?? 0) >= rounds || workers.every((worker) => worker.isStopped);
    await until(isTrained, rounds * 60_000 + 300_000);
    world.log("director", "the faults end");
    faults.stop();
    await until(
      () => master.isAlive && workers.every(({ isAlive, isStopped }) => isAlive || isStopped),
      QUIET_MS,
    );
    for (const worker of workers) worker.finish();
    if (!(await until(() => workers.every(({ isStopped }) => isStopped), QUIET_MS)))
      return world.violate("live", "not every worker stops");
    const isArrived = () => peersAlive() === 0 && world.network.commitsUnderWay === 0;
    if (!(await until(isArrived, QUIET_MS))) return world.violate("live", "commits are under way for ever");
    // Whoever had no answer when it stopped has kept what it had: it is sent by the next process.
    const late = workers.filter(({ hasUnsent }) => hasUnsent);
    for (const worker of late) worker.start({ upTo: 0, resume: 0, isCatchingUp: true });
    if (!(await until(() => late.every(({ isStopped }) => isStopped), QUIET_MS)))
      return world.violate("live", "not every worker stops after it has sent the rest");
    for (const { setup } of late.filter(({ hasUnsent }) => hasUnsent))
      world.violate("live", `${setup.nodeId} does not send what it kept, with a repository that answers`);
    for (let closing = 0; ; closing++) {
      master.drain();
      if (!(await until(() => master.isDrained && master.sleepers === 0, QUIET_MS)))
        return world.violate("live", "the master does not come to an end");
      auditor.audit();
      if (auditor.undecided.length === 0 || closing === MAX_CLOSING_ROUNDS) break;
      // What was refused is told with the next version, and there is none without something to add up.
      workers[0]!.start({ upTo: workers[0]!.stepsMade + innerSteps, resume: 0, isCatchingUp: true });
      if (!(await until(() => workers[0]!.isStopped, QUIET_MS)))
        return world.violate("live", "the last worker does not stop");
    }
    world.log("director", "all is quiet");
    for (const worker of workers) worker.start({ upTo: 0, resume: 0, isCatchingUp: true });
    if (!(await until(() => workers.every(({ isQuiet }) => isQuiet), QUIET_MS)))
      return world.violate("live", "not every worker stops in the end");
    auditor.auditEnd();
    for (const worker of workers) worker.checkEnd();
  };
  let isOver = false;
  script().then(
    () => {
      isOver = true;
    },
    (error: unknown) => {
      world.violate("live", `the script ended with ${error instanceof Error ? error.stack : String(error)}`);
      isOver = true;
    },
  );
  const outcome = await time.runUntil(() => isOver, Number.POSITIVE_INFINITY);
  if (outcome !== "over") world.violate("live", "nothing happens any more");
  return reportOf(world, { seed, workers: workerCount, rounds, faults: faultNames });
}

interface Shape {
  readonly workerCount: number;
  readonly placesEach: number;
  readonly faultNames: readonly FaultName[];
}

interface Logged {
  readonly lines: string[];
}

const logs = new WeakMap<World, Logged>();

function makeWorld(
  { seed, newHasher = portableHasher, onLog }: SimulationOptions,
  random: RandomStream,
  { workerCount, placesEach, faultNames }: Shape,
): World {
  const time = new VirtualTime();
  const repository = new MemoryRepository();
  repository.append("initial commit", new Map());
  const faults = new FaultInjector(faultNames, new RandomStream(seed, "luck"));
  const lines: string[] = [];
  const violations: Violation[] = [];
  const log: World["log"] = (who, what) => {
    const line = `${time.nowMs.toFixed(3)} ${who} ${what}`;
    lines.push(line);
    onLog?.(line);
  };
  const violate: World["violate"] = (name, message) => {
    log("auditor", `VIOLATION [${name}] ${message}`);
    if (violations.length < MAX_VIOLATIONS) violations.push({ invariant: name, atMs: time.nowMs, message });
  };
  const settings = randomSettings(random, workerCount);
  const sha256 = (bytes: Uint8Array) => {
    const hasher = newHasher();
    hasher.update(bytes);
    return hasher.digest();
  };
  const ownerOf = (place: number) => nodeName(Math.floor(place / placesEach));
  const honest = new Set(Array.from({ length: workerCount }, (_, i) => nodeName(i)));
  const isHonest = (nodeId: string) => honest.has(nodeId);
  const auditor = new Auditor({ repository, settings, sha256, ownerOf, isHonest, violate });
  const network = new Network({ time, repository, faults, log, onCommit: () => auditor.audit() });
  const initial = initialWeights(workerCount * placesEach);
  const counts = new Map<string, number>();
  const world: World = {
    seed,
    time,
    repository,
    network,
    faults,
    auditor,
    settings,
    initial,
    newHasher,
    violations,
    counts,
    log,
    violate,
  };
  logs.set(world, { lines });
  log("director", `settings ${JSON.stringify(settings)}`);
  return world;
}

function nodeName(index: number): string {
  return `w${String(index).padStart(2, "0")}`;
}

function randomSettings(random: RandomStream, workers: number): MergeSettings {
  return {
    outerLr: random.pick([0.7, 1]),
    outerMomentum: random.pick([0, 0.5, 0.9]),
    momentumWarmupRounds: random.whole(0, 10),
    merge: "tokens",
    stalenessLimit: random.whole(1, 6),
    stalenessDiscount: random.pick([1, 0.95, 0.5]),
    clipFactor: random.pick([3, 3, null]),
    quorum: random.pick([null, 1, 2, Math.ceil(workers / 2)]),
    graceMs: random.between(2000, 12_000),
    keepVersions: random.whole(0, 4),
  };
}

async function crashWorker(
  world: World,
  worker: SimulatedWorker,
  director: SimulatedProcess,
  upTo: number,
): Promise<void> {
  const random = new RandomStream(world.seed, `crashes of ${worker.setup.nodeId}`);
  for (;;) {
    await director.sleep(random.between(10_000, 200_000));
    if (!world.faults.has("worker-crash")) return;
    if (!worker.isAlive) continue;
    worker.kill();
    count(world, "worker crashes");
    await director.sleep(random.between(500, 25_000));
    // Mostly from the newest checkpoint, sometimes from the one before, or with nothing but the outbox.
    worker.start({ upTo, resume: random.pick([0, 0, 0, 1, undefined]) });
  }
}

async function crashMaster(world: World, master: SimulatedMaster, director: SimulatedProcess): Promise<void> {
  const random = new RandomStream(world.seed, "crashes of the master");
  for (;;) {
    await director.sleep(random.between(10_000, 160_000));
    if (!world.faults.has("master-crash")) return;
    master.crash();
  }
}

function reportOf(
  world: World,
  shape: Pick<SimulationReport, "seed" | "workers" | "rounds" | "faults">,
): SimulationReport {
  const { auditor, counts, faults, repository, time, violations } = world;
  const { lines } = logs.get(world)!;
  const fates: Record<string, number> = {};
  const refusals: Record<string, number> = {};
  const add = (into: Record<string, number>, name: string) => {
    into[name] = (into[name] ?? 0) + 1;
  };
  for (const { entry } of auditor.sent.values()) {
    add(fates, entry?.fate ?? "undecided");
    if (entry !== undefined && entry.reason !== "") add(refusals, entry.reason.split(":")[0]!);
  }
  const get = (name: string) => counts.get(name) ?? 0;
  return {
    ...shape,
    versions: auditor.newest?.publication.outerStep ?? 0,
    fates,
    refusals,
    localSteps: get("local steps"),
    lostSteps: get("lost steps"),
    workerCrashes: get("worker crashes"),
    masterCrashes: get("master crashes"),
    masterSuspensions: get("master suspensions"),
    injected: Object.fromEntries([...faults.counts].sort(([a], [b]) => (a < b ? -1 : 1))),
    commits: repository.commits.length,
    simulatedMs: time.nowMs,
    events: lines.length,
    logSha256: sha256Hex(lines.join("\n")),
    violations,
  };
}

const portableHasher: NewHasher = () => {
  const chunks: Uint8Array[] = [];
  return {
    update: (bytes) => chunks.push(bytes.slice()),
    digest: () => {
      const all = new Uint8Array(chunks.reduce((sum, { byteLength }) => sum + byteLength, 0));
      let offset = 0;
      for (const chunk of chunks) {
        all.set(chunk, offset);
        offset += chunk.byteLength;
      }
      return sha256Hex(all);
    },
  };
};
