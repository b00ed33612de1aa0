// Fuzzing of the safetensors reader with deterministic mutants of valid files. Each mutant either
// loads into a consistent table or is refused by the typed error, quickly and in little memory; a flip in the data
// loads as exactly the flipped value. SPEEDTRONIC_SLOW_FRACTION scales the number of mutants.

import { readFileSync } from "node:fs";
import { setFlagsFromString } from "node:v8";
import { runInNewContext, Script } from "node:vm";
import { expect, test } from "vitest";

import {
  DTYPE_BITS,
  encodeSafetensors,
  parseSafetensors,
  SAFETENSORS_DTYPES,
  SafetensorsError,
  type SafetensorsView,
  toFloat32,
} from "../../src/formats/safetensors/index.js";
import { MUTATORS, type Mutant, type MutatorName, makeRandom } from "./mutants.js";

const MUTANTS = Math.ceil(100_000 * Number(process.env.SPEEDTRONIC_SLOW_FRACTION ?? "1"));
const MAX_MS = 50;
const MAX_BYTES = 50 * 2 ** 20;
/** After this a mutant counts as a hang; the watchdog of `vm` ends even a loop without end. */
const HANG_MS = 5_000;
const PACKED = new Set(["F4", "F6_E2M3", "F6_E3M2"]);

const written = JSON.parse(
  readFileSync(new URL("../fixtures/safetensors-verdicts/seeds.json", import.meta.url), "utf8"),
) as { seeds: { name: string; bytes: string }[] };

/** Files of Python's writer, and one of ours with the dtypes that torch does not write. */
const seeds = [
  ...written.seeds.map(({ name, bytes }) => ({ name, file: new Uint8Array(Buffer.from(bytes, "base64")) })),
  {
    name: "every dtype",
    file: encodeSafetensors(
      SAFETENSORS_DTYPES.map((dtype) => ({
        name: `t.${dtype}`,
        dtype,
        shape: [2, 4],
        data: Uint8Array.from({ length: DTYPE_BITS[dtype] }, (_, i) => i * 37),
      })),
      { k: "v" },
    ),
  },
];

setFlagsFromString("--expose-gc");
const collectGarbage = runInNewContext("gc") as () => void;

const watched = new Script("fuzzJob()");
function runWatched(job: () => void): void {
  (globalThis as unknown as { fuzzJob: () => void }).fuzzJob = job;
  watched.runInThisContext({ timeout: HANG_MS });
}

/** Opens a mutant and touches every tensor's bytes and values, as a user would. */
function loadAll(bytes: Uint8Array): SafetensorsView | SafetensorsError {
  try {
    const view = parseSafetensors(bytes, "mutant.safetensors");
    for (const name of view.entries.keys()) {
      const tensor = view.read(name);
      if (!PACKED.has(tensor.dtype)) toFloat32(tensor);
    }
    return view;
  } catch (error) {
    if (error instanceof SafetensorsError) return error;
    throw error;
  }
}

function measure(bytes: Uint8Array) {
  const allocated = () => {
    const { heapUsed, arrayBuffers } = process.memoryUsage();
    return heapUsed + arrayBuffers;
  };
  let result: SafetensorsView | SafetensorsError | undefined;
  const bytesBefore = allocated();
  const msBefore = performance.now();
  runWatched(() => {
    result = loadAll(bytes);
  });
  const ms = performance.now() - msBefore;
  return { result: result!, ms, extraBytes: allocated() - bytesBefore };
}

/** The data part is tiled by the tensors and every byte that a tensor gives is the file's. */
function checkTable(view: SafetensorsView, bytes: Uint8Array): void {
  let position = view.dataStart;
  for (const { name, dataOffsets, sizeBytes } of view.entries.values()) {
    const tensor = view.read(name);
    const isTiled = view.dataStart + dataOffsets[0] === position && tensor.bytes.byteLength === sizeBytes;
    if (!isTiled || Buffer.compare(tensor.bytes, bytes.subarray(position, position + sizeBytes)) !== 0) {
      expect.fail(`tensor ${JSON.stringify(name)} does not have its bytes`);
    }
    position += sizeBytes;
  }
  expect(position).toBe(bytes.byteLength);
}

/** Value of the flipped element by an independent decoder, where the platform has one. */
const DECODERS: Record<string, (view: DataView, offset: number) => number> = {
  F32: (view, offset) => view.getFloat32(offset, true),
  C64: (view, offset) => view.getFloat32(offset, true),
  F64: (view, offset) => Math.fround(view.getFloat64(offset, true)),
  U64: (view, offset) => Math.fround(Number(view.getBigUint64(offset, true))),
  I64: (view, offset) => Math.fround(Number(view.getBigInt64(offset, true))),
  U32: (view, offset) => Math.fround(view.getUint32(offset, true)),
  I32: (view, offset) => Math.fround(view.getInt32(offset, true)),
  U16: (view, offset) => view.getUint16(offset, true),
  I16: (view, offset) => view.getInt16(offset, true),
  U8: (view, offset) => view.getUint8(offset),
  BOOL: (view, offset) => view.getUint8(offset),
  I8: (view, offset) => view.getInt8(offset),
  BF16: (view, offset) => ieeeValue(view.getUint16(offset, true), 8, 7),
  F16: (view, offset) => ieeeValue(view.getUint16(offset, true), 5, 10),
  F8_E5M2: (view, offset) => ieeeValue(view.getUint8(offset), 5, 2),
};

/** Value of a small float by the definition of IEEE formats. */
function ieeeValue(bits: number, exponentBits: number, mantissaBits: number): number {
  const sign = bits >> (exponentBits + mantissaBits) ? -1 : 1;
  const exponent = (bits >> mantissaBits) % 2 ** exponentBits;
  const fraction = (bits % 2 ** mantissaBits) / 2 ** mantissaBits;
  const bias = 2 ** (exponentBits - 1) - 1;
  if (exponent === 2 ** exponentBits - 1) return fraction === 0 ? sign * Infinity : Number.NaN;
  return sign * (exponent === 0 ? fraction * 2 ** (1 - bias) : (1 + fraction) * 2 ** (exponent - bias));
}

/** Everything is as in the seed, except the one flipped byte and the one value that holds it. */
function checkFlip(view: SafetensorsView, seed: Uint8Array, flip: NonNullable<Mutant["flip"]>): number {
  const original = parseSafetensors(seed);
  let flippedTensors = 0;
  let checkedValues = 0;
  expect([...view.entries.values()]).toEqual([...original.entries.values()]);
  for (const { name, dtype, dataOffsets, sizeBytes } of view.entries.values()) {
    const [before, after] = [original.read(name), view.read(name)];
    const expected = before.bytes.slice();
    const inside = flip.position - view.dataStart - dataOffsets[0];
    const isFlipped = inside >= 0 && inside < sizeBytes;
    if (isFlipped) expected[inside] = expected[inside]! ^ flip.mask;
    if (Buffer.compare(after.bytes, expected) !== 0) expect.fail(`tensor ${JSON.stringify(name)} differs`);
    flippedTensors += Number(isFlipped);
    const decode = DECODERS[dtype];
    if (!isFlipped || decode === undefined) continue;
    const values = toFloat32(after);
    const width = sizeBytes / values.length;
    const index = Math.floor(inside / width);
    expect(values[index]).toBe(decode(new DataView(expected.buffer), index * width));
    checkedValues += 1;
  }
  expect(flippedTensors).toBe(1);
  return checkedValues;
}

test(`${MUTANTS} mutants of ${seeds.length} files: refused or loaded, never a crash, a hang or a flood`, () => {
  expect(seeds.length).toBeGreaterThanOrEqual(12);
  for (const { name, file } of seeds) {
    const loaded = loadAll(file);
    if (loaded instanceof SafetensorsError) expect.fail(`seed ${name}: ${loaded.message}`);
  }
  const names = Object.keys(MUTATORS) as MutatorName[];
  const tally = new Map(names.map((name) => [name, { loaded: 0, refused: 0 }]));
  let checkedValues = 0;

  for (let i = 0; i < MUTANTS; i++) {
    const kind = names[i % names.length]!;
    const seed = seeds[Math.floor(i / names.length) % seeds.length]!;
    const mutant: Mutant = MUTATORS[kind](seed.file, makeRandom(i));
    const label = `mutant ${i} (${kind} of ${seed.name})`;
    let run: ReturnType<typeof measure>;
    try {
      run = measure(mutant.bytes);
      // A pause of the collector or of the machine is not the reader's: only what repeats counts.
      for (let again = 0; again < 3 && (run.ms > MAX_MS || run.extraBytes > MAX_BYTES); again++) {
        collectGarbage();
        run = measure(mutant.bytes);
      }
    } catch (error) {
      throw new Error(`${label} escaped the typed error`, { cause: error });
    }
    if (run.ms > MAX_MS) expect.fail(`${label} took ${run.ms.toFixed(1)} ms`);
    if (run.extraBytes > MAX_BYTES) expect.fail(`${label} took ${run.extraBytes} bytes`);
    const { result } = run;
    const counts = tally.get(kind)!;
    if (result instanceof SafetensorsError) {
      counts.refused += 1;
      expect(result.code, label).toMatch(/^safetensors\.[a-z_]+$/);
      if (kind === "truncate") expect(result.code, label).toBe("safetensors.truncated");
    } else {
      counts.loaded += 1;
      checkTable(result, mutant.bytes);
      if (mutant.flip !== undefined) checkedValues += checkFlip(result, seed.file, mutant.flip);
    }
  }

  // The mutants reach both ends: data flips always load, cut files never do, edited headers do both.
  expect(tally.get("flip a bit in the data")!.refused).toBe(0);
  expect(tally.get("truncate")!.loaded).toBe(0);
  expect(checkedValues).toBeGreaterThan(0);
  if (MUTANTS >= 1000) {
    for (const kind of ["edit the header", "flip bits in the header", "flip bits anywhere"] as const) {
      expect(Math.min(tally.get(kind)!.loaded, tally.get(kind)!.refused), kind).toBeGreaterThan(0);
    }
  }
});
