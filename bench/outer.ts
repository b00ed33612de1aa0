// `npm run bench -- outer`: one outer round over the deltas of a model with 124 million parameters, against the Python
// package's own functions: the arithmetic alone, and a whole round over our hub. Fresh processes that take turns; files
// are in the page cache; both sides must come to the same weights.

import { spawn, spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { cpus, tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { largestDifference } from "./outer-compare.js";
import {
  gpt2Small,
  gpt2Tiny,
  type OuterFiles,
  parameterCount,
  requireSpace,
  writeOuterFiles,
} from "./outer-data.js";
import { type Measured, type OuterResult, partOf } from "./outer-result.js";
import {
  copyStore,
  type HubRequest,
  makeStore,
  mark,
  REPO,
  type RunningHub,
  saveLatest,
  startHub,
} from "./outer-store.js";
import { plainEnv } from "./peers.js";
import { findPython } from "./python.js";
import { spread } from "./stats.js";

export interface OuterOptions {
  /** Runs of each side. */
  readonly computeRounds: number;
  readonly wholeRounds: number;
  /** Of Python. */
  readonly threads: number;
  /** A small model, for trying it: the numbers mean nothing. */
  readonly quick: boolean;
  /** Where the files go; a temporary folder by default. */
  readonly folder: string | undefined;
  readonly log: (text: string) => void;
}

const DELTAS = 8;
const LR = 0.7;
const MU = 0.9;
const WANTED = { compute: 3, round: 2 };
/** Models on the disk at the worst moment: 10 files, a store, a round of Python with its copies and its state. */
const MODELS_ON_DISK = 40;

interface Context extends OuterOptions {
  readonly work: string;
  readonly files: OuterFiles;
  readonly python: string | undefined;
}

type SideName = "ours" | "python";
/** Begin of a round, begin and end of an idle poll after it. */
type Moment = "begin" | "idle" | "end";

const here = (path: string) => fileURLToPath(new URL(path, import.meta.url));

export async function benchOuter(options: OuterOptions): Promise<OuterResult> {
  const model = options.quick ? gpt2Tiny : gpt2Small;
  const python = findPython();
  const parent = options.folder ?? tmpdir();
  requireSpace(parent, MODELS_ON_DISK * 4 * parameterCount(model));
  const work = mkdtempSync(join(parent, "speedtronic-bench-"));
  try {
    options.log(`writing ${DELTAS + 2} files of ${model.name}\n`);
    const files = await writeOuterFiles(work, model, DELTAS);
    const context: Context = { ...options, work, files, python };
    const compute = await benchCompute(context);
    const round = await benchRounds(context);
    const versions = Object.assign({}, compute.versions, round.versions);
    return {
      bench: "outer",
      processor: cpus()[0]?.model.trim(),
      versions,
      model: { name: model.name, parameters: parameterCount(model), sizeBytes: files.sizeBytes },
      deltas: DELTAS,
      threads: options.threads,
      compute: compute.part,
      round: round.part,
      skipped: python
        ? []
        : ["python: its environment is not there (make it with bash interop/setup-env.sh)"],
    };
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}

async function benchCompute(context: Context) {
  const { files, threads, python, work, log } = context;
  const runs: Record<SideName, Measured[]> = { ours: [], python: [] };
  const keeps = { ours: join(work, "ours"), python: join(work, "python") };
  for (const folder of Object.values(keeps)) mkdirSync(folder);
  await takeTurns(context, context.computeRounds, async (side, round) => {
    for (const path of [files.state, files.momentum, ...files.deltas]) readFileSync(path);
    const keep = round === 0 ? keeps[side] : "";
    const common = [files.state, files.momentum, String(LR), String(MU), keep];
    const [program, args] =
      side === "ours"
        ? [process.execPath, [here("outer-compute.mjs"), ...common, ...files.deltas]]
        : [python!, [here("../interop/bench/outer_compute.py"), ...common, String(threads), ...files.deltas]];
    const measured = await runSide(program, args, {});
    runs[side].push(measured);
    log(`compute ${round + 1}: ${side} ${measured.ms.toFixed(0)} ms\n`);
  });
  let difference: number | undefined;
  if (python !== undefined) {
    const compare = (name: string) => largestDifference(join(keeps.ours, name), join(keeps.python, name));
    difference = Math.max(await compare("state.safetensors"), await compare("momentum.safetensors"));
  }
  for (const folder of Object.values(keeps)) rmSync(folder, { recursive: true });
  const part = partOf(runs.ours, runs.python, WANTED.compute, difference);
  const unchecked = runs.python.map(({ ms, finite_check_ms = 0 }) => ms - finite_check_ms);
  const ratioWithoutCheck =
    unchecked.length === 0 ? undefined : spread(unchecked).median / part.ours.ms.median;
  return { part: { ...part, ratioWithoutCheck }, versions: versionsOf(runs) };
}

async function benchRounds(context: Context) {
  const { work, files, python, log } = context;
  const template = join(work, "hub");
  const making = join(work, "making");
  await makeStore(template, making, files, { lr: LR, mu: MU });
  rmSync(making, { recursive: true });
  const runs: Record<SideName, Measured[]> = { ours: [], python: [] };
  const commits: Partial<Record<SideName, number>> = {};
  const results = { ours: join(work, "ours.safetensors"), python: join(work, "python.safetensors") };
  let idlePoll: string[] = [];
  await takeTurns(context, context.wholeRounds, async (side, round) => {
    const folder = join(work, `${side}-${round}`);
    copyStore(template, join(folder, "hub"));
    // What the earlier round has left to write must not slow this one down.
    spawnSync("sync");
    const hub = await startHub(join(folder, "hub"));
    try {
      let begin = 0;
      let end = 0;
      const measured =
        side === "ours"
          ? await runOurs(hub, folder, async (moment) => {
              const at = await mark(hub, moment);
              if (moment === "begin") begin = at;
              else if (moment === "idle") end = at;
              else idlePoll = hub.requests.slice(end + 1, at).map(requestText);
            })
          : await runPython(context, hub, folder);
      if (side === "python") end = await mark(hub, "end");
      commits[side] = hub.requests.slice(begin, end).filter(isCommit).length;
      runs[side].push(measured);
      if (round === 0) await saveLatest(hub.endpoint, results[side]);
      log(`round ${round + 1}: ${side} ${measured.ms.toFixed(0)} ms\n`);
    } finally {
      await hub.stop();
      rmSync(folder, { recursive: true, force: true });
    }
  });
  const difference = python === undefined ? undefined : await largestDifference(results.ours, results.python);
  const part = partOf(runs.ours, runs.python, WANTED.round, difference);
  return {
    part: { ...part, commits: { ours: commits.ours!, python: commits.python }, idlePoll },
    versions: versionsOf(runs),
  };
}

function runOurs(hub: RunningHub, folder: string, at: (moment: Moment) => Promise<void>) {
  const args = [hub.endpoint, REPO, join(folder, "scratch"), String(LR), String(MU), String(DELTAS)];
  return runSide(process.execPath, [here("outer-round.mjs"), ...args], {}, at);
}

function runPython({ python, files, threads }: Context, hub: RunningHub, folder: string) {
  const args = [REPO, files.state, folder, String(LR), String(MU), String(threads)];
  return runSide(python!, [here("../interop/bench/outer_round.py"), ...args], {
    HF_ENDPOINT: hub.endpoint,
    HF_HOME: join(folder, "hf"),
    HF_HUB_DISABLE_PROGRESS_BARS: "1",
  });
}

/** The other side first in every second round. */
async function takeTurns(
  { python }: Context,
  rounds: number,
  run: (side: SideName, round: number) => Promise<void>,
): Promise<void> {
  const sides: SideName[] = python === undefined ? ["ours"] : ["ours", "python"];
  for (let round = 0; round < rounds; round++) {
    for (const side of round % 2 === 0 ? sides : [...sides].reverse()) await run(side, round);
  }
}

/** The result that a process prints. At its marks it waits until `at` is done. */
async function runSide(
  program: string,
  args: readonly string[],
  env: Readonly<Record<string, string>>,
  at: (moment: Moment) => Promise<void> = async () => {},
): Promise<Measured> {
  const child = spawn(program, args, {
    env: { ...plainEnv(), ...env },
    stdio: ["pipe", "pipe", "inherit"],
  });
  const exited = new Promise<number | null>((resolve) => {
    child.once("exit", resolve);
  });
  let measured: Measured | undefined;
  for await (const line of createInterface({ input: child.stdout })) {
    if (!line.startsWith("{")) continue;
    const value = JSON.parse(line) as Measured | { readonly moment: Moment };
    if ("moment" in value) {
      await at(value.moment);
      child.stdin.write("\n");
    } else measured = value;
  }
  const status = await exited;
  if (status === 0 && measured !== undefined) return measured;
  throw new Error(`${program} ${args[0]} failed (${status})`);
}

const isCommit = ({ method, path, status }: HubRequest) =>
  method === "POST" && path.includes("/commit/") && status === 200;
const requestText = ({ method, path, status }: HubRequest) => `${method} ${path} ${status}`;

function versionsOf(runs: Readonly<Record<SideName, readonly Measured[]>>): Record<string, string> {
  return Object.assign({}, ...Object.values(runs).map((list) => list[0]?.versions ?? {}));
}
