// Fuzzing of the reader of PyTorch files with deterministic mutants of files that real PyTorch wrote. Each either
// loads or is refused by the typed error, quickly and in little memory; a flip in the data loads as exactly the
// flipped value. SPEEDTRONIC_SLOW_FRACTION scales the number of mutants.

import { readdirSync, readFileSync } from "node:fs";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { Worker } from "node:worker_threads";
import { afterAll, beforeAll, expect, test } from "vitest";

import { bytesSource, toFloat32 } from "../../src/formats/safetensors/index.js";
import { readTorchFile, type TorchFile, TorchFileError } from "../../src/formats/torch/index.js";
import { type Mutant, makeRandom } from "./mutants.js";
import { TORCH_MUTATORS, type TorchMutatorName, type TorchSeed, takeApart } from "./torch-mutants.js";

const MUTANTS = Math.ceil(100_000 * Number(process.env.SPEEDTRONIC_SLOW_FRACTION ?? "1"));
const MAX_MS = 50;
const MAX_BYTES = 50 * 2 ** 20;
/** After this a mutant counts as a hang. */
const HANG_MS = 10_000;
/** Of each tensor: a mutant may describe far more than the file has. */
const READ_BYTES = 2 ** 16;

const folder = new URL("../fixtures/torch/", import.meta.url);

setFlagsFromString("--expose-gc");
const collectGarbage = runInNewContext("gc") as () => void;

/** Ends the process when no mutant was done for too long: a loop without end leaves no other way. */
const progress = new Int32Array(new SharedArrayBuffer(4));
let watchdog: Worker;
beforeAll(() => {
  const script = `
    const { workerData } = require("node:worker_threads");
    let seen = -1;
    setInterval(() => {
      const now = Atomics.load(workerData, 0);
      if (now === seen) {
        require("node:fs").writeSync(2, "mutant " + now + " hangs\\n");
        process.kill(process.pid, "SIGKILL");
      }
      seen = now;
    }, ${HANG_MS}).unref();
    setInterval(() => {}, 1 << 30);`;
  watchdog = new Worker(script, { eval: true, workerData: progress });
});
afterAll(() => watchdog.terminate());

/** Opens a mutant and touches every tensor, as a user would. */
async function loadAll(bytes: Uint8Array): Promise<TorchFile | TorchFileError> {
  try {
    const file = await readTorchFile(bytesSource(bytes, "mutant.pt"));
    for (const [name, { sizeBytes }] of file.tensors.entries)
      await file.tensors.readRange(name, 0, Math.min(sizeBytes, READ_BYTES));
    return file;
  } catch (error) {
    if (error instanceof TorchFileError) return error;
    throw error;
  }
}

async function measure(bytes: Uint8Array) {
  const allocated = () => {
    const { heapUsed, arrayBuffers } = process.memoryUsage();
    return heapUsed + arrayBuffers;
  };
  const bytesBefore = allocated();
  const msBefore = performance.now();
  const result = await loadAll(bytes);
  return { result, ms: performance.now() - msBefore, extraBytes: allocated() - bytesBefore };
}

const DECODERS: Record<string, (view: DataView, offset: number) => number> = {
  F32: (view, offset) => view.getFloat32(offset, true),
  F64: (view, offset) => Math.fround(view.getFloat64(offset, true)),
  I32: (view, offset) => Math.fround(view.getInt32(offset, true)),
  U8: (view, offset) => view.getUint8(offset),
};

/** Only the flipped byte differs, wherever a tensor shows it, and the value there is the flipped one. */
async function checkFlip(file: TorchFile, original: TorchFile, { mask }: NonNullable<Mutant["flip"]>) {
  let flipped = 0;
  let checkedValues = 0;
  expect([...file.tensors.entries]).toEqual([...original.tensors.entries]);
  for (const [name, tensor] of [...file.tensors.tensors, ...file.withoutEntry]) {
    const twin = original.tensors.tensors.get(name) ?? original.withoutEntry.get(name)!;
    const [before, after] = [await original.readBytes(twin), await file.readBytes(tensor)];
    const dtype = file.tensors.entries.get(name)?.dtype;
    for (const [i, byte] of after.entries()) {
      if (byte === before[i]) continue;
      if (byte !== (before[i]! ^ mask)) expect.fail(`tensor ${name} differs in more than the flipped bit`);
      flipped += 1;
      const decode = dtype === undefined ? undefined : DECODERS[dtype];
      if (decode === undefined) continue;
      const values = toFloat32(await file.tensors.read(name));
      const width = after.byteLength / values.length;
      const index = Math.floor(i / width);
      expect(values[index]).toBe(decode(new DataView(after.slice().buffer), index * width));
      checkedValues += 1;
    }
  }
  return { flipped, checkedValues };
}

test(`${MUTANTS} mutants: refused or loaded, never a crash, a hang or a flood`, async () => {
  const files = readdirSync(folder).filter((name) => name.endsWith(".pt"));
  const seeds: (TorchSeed & { original: TorchFile })[] = [];
  for (const name of [...files, "python-speedtronic/outer_state.pt"]) {
    const file = new Uint8Array(readFileSync(new URL(name, folder)));
    const original = await loadAll(file);
    if (original instanceof TorchFileError) expect.fail(`seed ${name}: ${original.message}`);
    seeds.push({ ...(await takeApart(name, file)), original });
  }
  expect(seeds.length).toBeGreaterThanOrEqual(16);
  const names = Object.keys(TORCH_MUTATORS) as TorchMutatorName[];
  const tally = new Map(names.map((name) => [name, { loaded: 0, refused: 0 }]));
  const codes = new Set<string>();
  let [flips, checkedValues] = [0, 0];

  for (let i = 0; i < MUTANTS; i++) {
    Atomics.store(progress, 0, i + 1);
    const kind = names[i % names.length]!;
    const seed = seeds[Math.floor(i / names.length) % seeds.length]!;
    const mutant: Mutant = TORCH_MUTATORS[kind](seed, makeRandom(i));
    const label = `mutant ${i} (${kind} of ${seed.name})`;
    let run: Awaited<ReturnType<typeof measure>>;
    try {
      run = await measure(mutant.bytes);
      // A pause of the collector or of the machine is not the reader's: only what repeats counts.
      for (let again = 0; again < 3 && (run.ms > MAX_MS || run.extraBytes > MAX_BYTES); again++) {
        collectGarbage();
        run = await measure(mutant.bytes);
      }
    } catch (error) {
      throw new Error(`${label} escaped the typed error`, { cause: error });
    }
    if (run.ms > MAX_MS) expect.fail(`${label} took ${run.ms.toFixed(1)} ms`);
    if (run.extraBytes > MAX_BYTES) expect.fail(`${label} took ${run.extraBytes} bytes`);
    const { result } = run;
    const counts = tally.get(kind)!;
    if (result instanceof TorchFileError) {
      counts.refused += 1;
      codes.add(result.code);
      expect(result.code, label).toMatch(/^torch\.[a-z_]+$/);
      continue;
    }
    counts.loaded += 1;
    if (mutant.flip === undefined) continue;
    const found = await checkFlip(result, seed.original, mutant.flip);
    // Views leave parts of their storage out; elsewhere every byte belongs to a tensor.
    if (!seed.name.startsWith("views")) expect(found.flipped, label).toBeGreaterThan(0);
    flips += found.flipped;
    checkedValues += found.checkedValues;
  }

  // The mutants reach both ends: data flips always load, cut zip files never do, edited pickles do both.
  expect(tally.get("flip a bit in the data")!.refused).toBe(0);
  expect(flips).toBeGreaterThan(0);
  expect(checkedValues).toBeGreaterThan(0);
  expect(tally.get("truncate")!.loaded).toBe(0);
  // Three edits at once seldom leave a file that loads: only the full number of mutants is sure to hold some.
  if (MUTANTS >= 100_000) {
    for (const kind of ["edit the pickle", "edit the pickle thrice", "flip bits anywhere"] as const)
      expect(Math.min(tally.get(kind)!.loaded, tally.get(kind)!.refused), kind).toBeGreaterThan(0);
  }
  if (MUTANTS >= 1000) expect(codes.size).toBeGreaterThan(10);
});
