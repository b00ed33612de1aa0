// Pseudo-gradients, means, descriptions, and delta files: the project's vectors, exact rounding, what is refused.

import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { DeltaPath } from "../../src/distributed/index.js";
import {
  averageDeltas,
  computePseudoGradient,
  DeltaSummary,
  describeDelta,
  floatingState,
  headerContradictions,
  loadDelta,
  loadDeltaFile,
  parseDeltaHeader,
  parseDeltaPath,
  saveDeltaFile,
  writeDelta,
} from "../../src/distributed/index.node.js";
import {
  bytesSource,
  encodeSafetensors,
  type SafetensorsDtype,
  type TensorInput,
} from "../../src/formats/safetensors/index.js";
import { encodeBfloat16, encodeFloat16 } from "../../src/util/half.js";
import { f32, hex, MemorySink, memory, opened, valuesOf } from "./states.js";

const code = (code: string) => expect.objectContaining({ code: `wire.${code}` });
const steps = (name = "steps"): TensorInput => ({
  name,
  dtype: "I64",
  shape: [1],
  data: BigInt64Array.of(5n),
});
const raw = (name: string, dtype: SafetensorsDtype, bytes: number): TensorInput => ({
  name,
  dtype,
  shape: [1],
  data: new Uint8Array(bytes),
});
const anyFloat = fc.float({ noNaN: true, noDefaultInfinity: true });

describe("computePseudoGradient", () => {
  test("is the baseline minus the current state", async () => {
    expect(await valuesOf(computePseudoGradient(memory(f32("w", 3, 5)), memory(f32("w", 1, 4))))).toEqual({
      w: [2, 1],
    });
  });

  test("leaves out what is not floating, and widens before it subtracts", async () => {
    const half = (a: number): TensorInput[] => [
      { name: "f16", dtype: "F16", shape: [1], data: encodeFloat16(Float32Array.of(a)) },
      { name: "bf16", dtype: "BF16", shape: [1], data: encodeBfloat16(Float32Array.of(a)) },
      { name: "f64", dtype: "F64", shape: [1], data: Float64Array.of(a / 3) },
      steps(),
    ];
    const streams = computePseudoGradient(await opened(...half(1.5)), await opened(...half(0.5)));
    expect(streams.map(({ name, dtype }) => [name, dtype])).toEqual([
      ["bf16", "F32"],
      ["f16", "F32"],
      ["f64", "F32"],
    ]);
    const f64 = Math.fround(Math.fround(0.5) - Math.fround(0.5 / 3));
    expect(await valuesOf(streams)).toEqual({ bf16: [1], f16: [1], f64: [f64] });
  });

  test("goes through tensors of many pieces, empty ones and scalars, from files as from memory", async () => {
    const size = 2 ** 19 + 77;
    const tensors = (scale: number): TensorInput[] => [
      {
        name: "big",
        dtype: "F32",
        shape: [size],
        data: Float32Array.from({ length: size }, (_, i) => i * scale),
      },
      { name: "empty", dtype: "F32", shape: [0, 4], data: new Float32Array(0) },
      { name: "scalar", dtype: "F32", shape: [], data: Float32Array.of(scale) },
    ];
    const [a, b] = [tensors(3), tensors(1)];
    const fromFile = await valuesOf(computePseudoGradient(await opened(...a), await opened(...b)));
    expect(fromFile).toEqual(await valuesOf(computePseudoGradient(memory(...a), await opened(...b))));
    expect([fromFile.empty, fromFile.scalar]).toEqual([[], [2]]);
    expect(fromFile.big).toHaveLength(size);
    expect(fromFile.big!.every((value, i) => value === 2 * i)).toBe(true);
  });

  test("rounds once, as float32 does", async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(fc.tuple(anyFloat, anyFloat), { minLength: 1 }), async (pairs) => {
        const [a, b] = [pairs.map(([x]) => x), pairs.map(([, y]) => y)];
        const { w } = await valuesOf(computePseudoGradient(memory(f32("w", ...a)), memory(f32("w", ...b))));
        expect(w).toEqual(pairs.map(([x, y]) => Math.fround(x - y)));
      }),
      { seed: 1, numRuns: 100 },
    );
  });

  test("refuses other keys, by name on each side", () => {
    const work = () =>
      computePseudoGradient(memory(f32("w", 1), f32("b", 1)), memory(f32("w", 1), f32("c", 1)));
    expect(work).toThrow(code("key_mismatch"));
    expect(work).toThrow('the tensors differ: the baseline lacks "c"; the current state lacks "b"');
  });

  test("refuses other shapes, also of tensors that are not floating", () => {
    const work = () => computePseudoGradient(memory(f32("w", 1, 2)), memory(f32("w", 1)));
    expect(work).toThrow('tensor "w": shape [2] in the baseline, [1] in the current state');
    const counts = (n: number): TensorInput => ({
      name: "n",
      dtype: "U8",
      shape: [n],
      data: new Uint8Array(n),
    });
    expect(() => computePseudoGradient(memory(counts(1)), memory(counts(2)))).toThrow(code("shape_mismatch"));
  });

  test.each([
    ["C64", 8],
    ["F8_E4M3", 1],
    ["F8_E5M2", 1],
  ] as const)("refuses %s by name", (dtype, bytes) => {
    const state = memory(raw("w", dtype, bytes));
    expect([...floatingState(state).keys()]).toEqual(["w"]);
    expect(() => computePseudoGradient(state, state)).toThrow(code("unsupported_dtype"));
    expect(() => averageDeltas([state])).toThrow(code("unsupported_dtype"));
  });
});

test("floatingState keeps the floating tensors, also of this library", () => {
  const state = new Map([
    ["w", { dtype: "float32", shape: [1], data: Float32Array.of(1) } as const],
    ["n", { dtype: "int32", shape: [1], data: Int32Array.of(1) } as const],
    ["m", { dtype: "bool", shape: [1], data: Uint8Array.of(1) } as const],
    ["h", { dtype: "float16", shape: [1], data: Float32Array.of(1) } as const],
  ]);
  expect([...floatingState(state).keys()]).toEqual(["w", "h"]);
});

describe("averageDeltas", () => {
  test("is the mean, whatever the order of keys", async () => {
    const [a, b] = [memory(f32("w", 2, 1), f32("v", 1)), memory(f32("v", 2), f32("w", 0, 3))];
    expect(await valuesOf(averageDeltas([a, b]))).toEqual({ v: [1.5], w: [1, 2] });
  });

  test("adds in the given order, rounding each time", async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(anyFloat, { minLength: 1, maxLength: 9 }), async (list) => {
        const { w } = await valuesOf(averageDeltas(list.map((value) => memory(f32("w", value)))));
        const sum = list.reduce((total, value) => Math.fround(total + value), 0);
        expect(w).toEqual([Math.fround(sum / list.length)]);
      }),
      { seed: 2, numRuns: 300 },
    );
  });

  test("takes narrow deltas, and weights instead of the count", async () => {
    const narrow: TensorInput = {
      name: "w",
      dtype: "BF16",
      shape: [1],
      data: encodeBfloat16(Float32Array.of(3)),
    };
    const deltas = [await opened(f32("w", 1)), await opened(narrow)];
    expect(await valuesOf(averageDeltas(deltas))).toEqual({ w: [2] });
    expect(await valuesOf(averageDeltas(deltas, { weights: [0.25, 0.75] }))).toEqual({ w: [2.5] });
    const third = Math.fround(1 / 3);
    const expected = Math.fround(Math.fround(third * 1) + Math.fround(third * 3));
    expect(await valuesOf(averageDeltas(deltas, { weights: [1 / 3, 1 / 3] }))).toEqual({ w: [expected] });
  });

  test("names what does not fit", async () => {
    expect(() => averageDeltas([])).toThrow(code("no_deltas"));
    expect(() => averageDeltas([memory(f32("w", 1)), memory(f32("v", 1))])).toThrow(
      'the tensors differ: delta 1 lacks "v"; delta 2 lacks "w"',
    );
    expect(() => averageDeltas([memory(f32("w", 1)), memory(f32("w", 1, 2))])).toThrow(
      code("shape_mismatch"),
    );
    expect(() => averageDeltas([memory(steps())])).toThrow("only floating tensors belong here");
    for (const weights of [[], [1, 2], [Number.NaN], [1e300]]) {
      expect(() => averageDeltas([memory(f32("w", 1))], { weights })).toThrow(code("invalid_setting"));
    }
  });
});

describe("describeDelta", () => {
  test("knows norm, zeros and what is not finite", async () => {
    expect(await describeDelta(memory(f32("a", 3), f32("b", 0, 4)))).toEqual({
      norm: 5,
      isZero: false,
      isFinite: true,
      firstNonFinite: undefined,
      elementCount: 3,
    });
    expect(await describeDelta(await opened(f32("a", 0, -0)))).toMatchObject({
      norm: 0,
      isZero: true,
      isFinite: true,
    });
    expect(await describeDelta(memory())).toMatchObject({ isZero: true, elementCount: 0 });
    expect(await describeDelta(memory(f32("a", 1e-45)))).toMatchObject({ isZero: false, isFinite: true });
    for (const value of [Number.NaN, Infinity, -Infinity]) {
      const found = await describeDelta(memory(f32("a", 1), f32("b", 0, value), f32("c", value)));
      expect(found).toMatchObject({ isZero: false, isFinite: false, firstNonFinite: "b" });
    }
    expect(await describeDelta(memory(f32("a", 3e38, 3e38)))).toMatchObject({ isFinite: true });
    const wide: TensorInput = { name: "w", dtype: "F64", shape: [1], data: Float64Array.of(1e39) };
    expect(await describeDelta(memory(wide))).toMatchObject({ isFinite: false, firstNonFinite: "w" });
  });

  test("agrees with what a summary gathered on the way", async () => {
    const summary = new DeltaSummary();
    const [a, b] = [memory(f32("x", 1, 2), f32("a", 7)), memory(f32("x", 4, 2), f32("a", 3))];
    const sink = new MemorySink();
    await writeDelta(sink, computePseudoGradient(a, b, { summary }), {
      nodeId: "n",
      localStep: 1,
      baseOuterStep: 0,
    });
    const { reader } = await loadDelta(bytesSource(sink.bytes));
    expect(summary.description).toEqual(await describeDelta(reader));
    expect(summary.description.norm).toBe(5);
  });
});

describe("delta files", () => {
  let folder = "";
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "delta-files-"));
  });
  afterAll(() => rm(folder, { recursive: true, force: true }));

  const header = { nodeId: "worker-1", localStep: 500, baseOuterStep: -1 };

  test("have golden bytes", async () => {
    const sink = new MemorySink();
    const sizeBytes = await writeDelta(sink, [f32("w", 2, 1)], { ...header, extra: { tokens: "9" } });
    const text =
      '{"__metadata__":{"algorithm":"dumb_diloco","base_outer_step":"-1","local_step":"500","node_id":"worker-1",' +
      '"speedtronic.tokens":"9"},"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}';
    const padded = text.padEnd(Math.ceil(text.length / 8) * 8);
    const length = new Uint8Array(8);
    new DataView(length.buffer).setBigUint64(0, BigInt(padded.length), true);
    expect(hex(sink.bytes)).toBe([hex(length), hex(Buffer.from(padded)), "000000400000803f"].join(""));
    expect(sizeBytes).toBe(sink.bytes.byteLength);
  });

  test("go to disk and back", async () => {
    const path = join(folder, "new", "delta.safetensors");
    await saveDeltaFile(path, computePseudoGradient(memory(f32("w", 3, 5)), memory(f32("w", 1, 4))), {
      ...header,
      extra: { fingerprint: "é" },
    });
    const delta = await loadDeltaFile(path);
    expect(delta.header).toEqual({
      ...header,
      algorithm: "dumb_diloco",
      extra: new Map([["fingerprint", "é"]]),
    });
    expect(await valuesOf(averageDeltas([delta.reader]))).toEqual({ w: [2, 1] });
    await delta.reader.close();
  });

  test("are refused with one text, whatever is wrong", async () => {
    const good = encodeSafetensors([f32("w", 1)]);
    for (const bytes of [new Uint8Array(0), good.subarray(0, -1), Buffer.from("not a file of tensors")]) {
      const path = join(folder, "bad.safetensors");
      await writeFile(path, bytes);
      const error = await loadDeltaFile(path).catch((error: unknown) => error);
      expect(error).toMatchObject({ code: "wire.unreadable_delta", file: path });
      expect((error as Error).message.startsWith(`${path}: unable to load the delta file: `)).toBe(true);
      expect((error as Error).cause).toBeInstanceOf(Error);
    }
    await expect(loadDeltaFile(join(folder, "absent"))).rejects.toThrow(code("unreadable_delta"));
  });

  test("hold floats only", async () => {
    await expect(writeDelta(new MemorySink(), [steps()], header)).rejects.toThrow(code("unsupported_dtype"));
    await expect(writeDelta(new MemorySink(), [], { ...header, nodeId: "a/b" })).rejects.toThrow(
      code("invalid_node_id"),
    );
    await expect(writeDelta(new MemorySink(), [], { ...header, baseOuterStep: -2 })).rejects.toThrow(
      "base_outer_step -2 must be an integer from -1 to 2^53 - 1",
    );
  });
});

describe("headers", () => {
  const parse = (metadata: Record<string, string>) =>
    parseDeltaHeader(new Map(Object.entries(metadata)), "f");

  test("are read as Python reads them", () => {
    expect(parse({})).toEqual({
      baseOuterStep: -1,
      nodeId: undefined,
      localStep: undefined,
      algorithm: undefined,
      extra: new Map(),
    });
    expect(parse({ base_outer_step: " +1_1 ", local_step: "x", other: "y" })).toMatchObject({
      baseOuterStep: 11,
      localStep: undefined,
      extra: new Map(),
    });
    for (const base of ["", "x", "1.0", "-2", "1__0", "_1", "99999999999999999999"]) {
      expect(() => parse({ base_outer_step: base })).toThrow(code("invalid_header"));
    }
  });

  test("L-20: are compared with the path", () => {
    const path = parseDeltaPath("nodes/a/delta_7.safetensors") as DeltaPath;
    expect(
      headerContradictions(parse({ node_id: "a", algorithm: "dumb_diloco", local_step: "8" }), path),
    ).toEqual([]);
    expect(headerContradictions(parse({}), path, { compareStep: true })).toEqual([]);
    const wrong = parse({ node_id: "b", algorithm: "x", local_step: "8" });
    expect(headerContradictions(wrong, path, { compareStep: true })).toEqual([
      'node_id is "b", the path says "a"',
      'algorithm is "x", "dumb_diloco" is expected',
      "local_step is 8, the path says 7",
    ]);
  });
});
