// The loop that kills members of a fleet and starts them again: a seeded random source chooses the victim and the moment,
// which follows something that a process says about its work.

import { appendFileSync } from "node:fs";
import { join } from "node:path";
import { RandomStream } from "../../src/distributed/simulate/random.js";
import { CHECKPOINT_STEPS, type Fleet } from "./kill-fleet.js";
import type { Ending, Killable } from "./kill-process.js";

/** Longest wait for anything that a healthy fleet does within a second or two. */
const PATIENCE_MS = 120_000;

/** A moment: so long, at most, after a process has said something. */
interface Moment {
  /** Undefined: the call. */
  readonly after: RegExp | undefined;
  readonly withinMs: number;
}

const workerMoments: readonly Moment[] = [
  // Checkpoints and some deltas are begun here.
  { after: new RegExp(`^step \\d*${CHECKPOINT_STEPS % 10}/`), withinMs: 60 },
  { after: /version \d+ installed/, withinMs: 25 },
  { after: /waits to be sent$/, withinMs: 25 },
  { after: /delta sent$/, withinMs: 25 },
  { after: /own delta of \d+ steps/, withinMs: 25 },
  { after: /^step \d+ {2}checkpoint /, withinMs: 40 },
  { after: /no delta taken/, withinMs: 60 },
];
const aggregatorMoments: readonly Moment[] = [{ after: /^version \d+ published/, withinMs: 250 }];
/** It looks at the delta soon, and makes a version with it. */
const afterDelta: Moment = { after: /delta sent$/, withinMs: 250 };

/** In a life that has just begun: while the program is read, or right after it has found its own files again. */
const firstMoments: readonly Moment[] = [
  { after: undefined, withinMs: 1200 },
  { after: /^(node \S+ meets others|publishing as)/, withinMs: 60 },
];

export interface KillPlan {
  /** Of workers and aggregator. */
  readonly kills: number;
  /** Every so many kills the hub goes as well, where there is one. */
  readonly hubEvery: number;
  readonly seed: number;
}

/** The fleet from its start to the kill of all its workers at the end; the hub, if any, and the aggregator still run. */
export async function runAndKill(fleet: Fleet, { kills, hubEvery, seed }: KillPlan): Promise<void> {
  const random = new RandomStream(seed, "kills");
  const failure = new AbortController();
  const start = (member: Killable) => {
    member.start();
    void member.ended.then((ending) => {
      if (ending !== "SIGKILL")
        failure.abort(new Error(`ended by itself with ${ending}, which ends the run\n${member.tail}`));
    });
  };
  const within = async <T>(work: (signal: AbortSignal) => Promise<T>): Promise<T> => {
    const late = AbortSignal.timeout(PATIENCE_MS);
    try {
      return await work(AbortSignal.any([failure.signal, late]));
    } catch (error) {
      throw failure.signal.aborted ? failure.signal.reason : error;
    }
  };
  const strike = async (victim: Killable, teller: Killable, { after, withinMs }: Moment) => {
    if (after !== undefined) await within((signal) => teller.nextLine(after, signal));
    await sleep(random.between(0, withinMs));
    note(fleet, `${victim.name} ${after === undefined ? "starting" : `${teller.name} ${after}`}`);
    await victim.kill();
    if (failure.signal.aborted) throw failure.signal.reason;
    start(victim);
  };

  await startAll(fleet, start, within);
  const { aggregator, workers, hub } = fleet;
  const momentOf = (member: Killable): Moment =>
    random.pick(member === aggregator ? aggregatorMoments : workerMoments);
  let last: Killable | undefined;
  for (let done = 1; done <= kills; done++) {
    const again = random.chance(0.2) ? last : undefined;
    const victim = again ?? random.pick([aggregator, ...workers]);
    const isTold = again === undefined && victim === aggregator && random.chance(0.5);
    const plain = isTold ? afterDelta : momentOf(victim);
    await strike(victim, isTold ? random.pick(workers) : victim, again ? random.pick(firstMoments) : plain);
    last = victim;
    if (hub === undefined || done % hubEvery !== 0) continue;
    // Whatever the others do there: a delta or a version on its way, a download.
    const teller = random.pick([aggregator, ...workers]);
    await strike(hub, teller, momentOf(teller));
    last = undefined;
  }
  // Nobody is left out of what a restart must lead to: more of the same work.
  for (const member of [aggregator, ...workers])
    await within((signal) => member.nextLine(/version \d+ (published|installed)/, signal));
  for (const worker of workers) await worker.kill();
}

async function startAll(
  { hub, aggregator, workers }: Fleet,
  start: (member: Killable) => void,
  within: <T>(work: (signal: AbortSignal) => Promise<T>) => Promise<T>,
): Promise<void> {
  if (hub !== undefined) {
    start(hub);
    await within((signal) => hub.nextLine(/HF_ENDPOINT=/, signal));
  }
  start(aggregator);
  // A node that finds no repository ends at once.
  await within((signal) => aggregator.nextLine(/^publishing as/, signal));
  for (const worker of workers) start(worker);
}

/** How often a worker is killed when it has made its last step. */
const LAST_KILLS = 2;
/** What follows the last step takes about so long: a checkpoint, the last delta, its way to the others. */
const ENDING_MS = 200;

/** A worker's way to its last step, with kills where it ends its work. Its end is that of its last life. */
export async function finishAndKill(
  fleet: Fleet,
  worker: Killable,
  { lastStep, seed }: { readonly lastStep: number; readonly seed: number },
): Promise<Ending> {
  const random = new RandomStream(seed, `the end of ${worker.name}`);
  const args = ["--max-steps", String(lastStep)];
  for (let kill = 0; kill < LAST_KILLS; kill++) {
    worker.start(args);
    const over = new AbortController();
    const isThere = worker.nextLine(new RegExp(`^step ${lastStep}/`), over.signal).catch(() => undefined);
    await Promise.race([isThere, finished(worker)]);
    over.abort();
    await sleep(random.between(0, ENDING_MS));
    note(fleet, `${worker.name} at its end`);
    await worker.kill();
  }
  worker.start(args);
  return finished(worker);
}

/** Waits for the end of a process that must end by itself. */
export async function finished(member: Killable): Promise<Ending> {
  const late = sleep(PATIENCE_MS).then(() => {
    throw new Error(`did not end\n${member.tail}`);
  });
  return Promise.race([member.ended, late]);
}

export async function killAll({ hub, aggregator, workers }: Fleet): Promise<void> {
  for (const member of [aggregator, ...workers, hub]) await member?.kill();
}

function note({ folder }: Fleet, text: string): void {
  appendFileSync(join(folder, "kills.log"), `${new Date().toISOString()} ${text}\n`);
}

const sleep = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));
