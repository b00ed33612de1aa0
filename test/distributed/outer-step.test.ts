// The outer step: the golden sequence, rounding, every dtype of a state, two files in one pass, and what is refused.

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { type OuterStepInputs, outerStep, writeOuterStep } from "../../src/distributed/index.js";
import {
  bytesSource,
  encodeSafetensors,
  openSafetensors,
  parseSafetensors,
  type TensorInput,
} from "../../src/formats/safetensors/index.js";
import { encodeBfloat16, encodeFloat16 } from "../../src/util/half.js";
import { f32, fileValues, hex, MemorySink, memory, opened } from "./states.js";

const code = (code: string) => expect.objectContaining({ code: `wire.${code}` });

/** One step, as two files. */
async function step(inputs: OuterStepInputs) {
  const [state, momentum] = [new MemorySink(), new MemorySink()];
  const sizes = await writeOuterStep(inputs, { state, momentum });
  expect(sizes).toEqual({ stateBytes: state.bytes.byteLength, momentumBytes: momentum.bytes.byteLength });
  return { state: state.bytes, momentum: momentum.bytes };
}

const reopen = (bytes: Uint8Array) => openSafetensors(bytesSource(bytes));

test("the golden sequence of three rounds, bit for bit", async () => {
  let state = await opened(f32("w", 1, -2, 0.5));
  let momentum: typeof state | undefined;
  const deltas = [memory(f32("w", 1, 2, -0.25))];
  const rounds: [string, number[]][] = [];
  for (let round = 0; round < 3; round++) {
    const files = await step({ state, momentum, deltas, lr: 0.7, mu: 0.9 });
    [state, momentum] = [await reopen(files.state), await reopen(files.momentum)];
    rounds.push([hex(parseSafetensors(files.state).read("w").bytes), fileValues(files.momentum).w!]);
  }
  const floats = (...values: number[]) => values.map(Math.fround);
  expect(rounds).toEqual([
    ["c1f5a8beb81e95c0b81e553f", floats(1, 2, -0.25)],
    ["2b870ec0954307c19543a73f", floats(1.89999998, 3.79999995, -0.474999994)],
    ["2f4c94c02f4c54c12f4cf43f", floats(2.71000004, 5.42000008, -0.67750001)],
  ]);
});

test("the project's vector, over the mean of two deltas", async () => {
  const deltas = [memory(f32("w", 2, 1)), memory(f32("w", 0, 3))];
  const { state } = await step({ state: memory(f32("w", 1, 1)), deltas, lr: 0.1, mu: 0.9 });
  expect(fileValues(state).w!.map((value) => value.toFixed(6))).toEqual(["0.810000", "0.620000"]);
});

test("the state's file is canonical, with what is not floating unchanged", async () => {
  const rest: TensorInput[] = [
    { name: "count", dtype: "I64", shape: [1], data: BigInt64Array.of(2n ** 60n) },
    { name: "mask", dtype: "BOOL", shape: [2], data: Uint8Array.of(1, 0) },
  ];
  const inputs = { state: await opened(f32("w", 1), f32("b", 2), ...rest), lr: 1, mu: 0 };
  const files = await step({ ...inputs, deltas: [memory(f32("w", 1), f32("b", -1))] });
  expect(hex(files.state)).toBe(hex(encodeSafetensors([f32("w", 0), f32("b", 3), ...rest])));
  expect(hex(files.momentum)).toBe(hex(encodeSafetensors([f32("b", -1), f32("w", 1)])));
});

test("the golden file of one tensor", async () => {
  const { state } = await step({
    state: memory(f32("w", 1, 1)),
    deltas: [memory(f32("w", 0, -1))],
    lr: 1,
    mu: 0,
  });
  expect(hex(state)).toBe(
    "4800000000000000" +
      "7b225f5f6d657461646174615f5f223a7b7d2c2277223a7b226474797065223a22463332222c" +
      "227368617065223a5b325d2c22646174615f6f666673657473223a5b302c385d7d7d" +
      "0000803f00000040",
  );
});

test("float32 rounds after each operation, the state once", async () => {
  const value = fc.float({ noNaN: true, noDefaultInfinity: true, min: -1000, max: 1000 });
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.tuple(value, value, value), { minLength: 1 }),
      fc.double({ min: 0.01, max: 1, noNaN: true }),
      fc.double({ min: 0, max: 0.99, noNaN: true }),
      async (rows, lr, mu) => {
        const column = (i: 0 | 1 | 2) => memory(f32("w", ...rows.map((row) => row[i])));
        const files = await step({ state: column(0), momentum: column(1), deltas: [column(2)], lr, mu });
        const f = Math.fround;
        const buffers = rows.map(([, buf, g]) => f(f(f(mu) * buf) + g));
        const states = rows.map(([s, , g], i) => f(s - f(lr) * f(g + f(f(mu) * buffers[i]!))));
        expect(fileValues(files.momentum).w).toEqual(buffers);
        expect(fileValues(files.state).w).toEqual(states);
      },
    ),
    { seed: 4, numRuns: 100 },
  );
});

describe("states of other dtypes", () => {
  const narrow = (dtype: "BF16" | "F16", name: string, value: number): TensorInput => {
    const encode = dtype === "BF16" ? encodeBfloat16 : encodeFloat16;
    return { name, dtype, shape: [1], data: encode(Float32Array.of(value)) };
  };

  test("keep them: small updates vanish in bfloat16, float64 keeps its digits", async () => {
    const f64: TensorInput = { name: "d", dtype: "F64", shape: [1], data: Float64Array.of(1 / 3) };
    const state = await opened(narrow("BF16", "b", 1), narrow("F16", "h", 1), f64, f32("w", 1));
    const delta = memory(f32("b", 0.001), f32("h", 0.01), f32("d", 0.5), f32("w", 0.001));
    const files = await step({ state, deltas: [delta], lr: 1, mu: 0 });
    const view = parseSafetensors(files.state);
    expect([...view.entries.values()].map(({ name, dtype }) => `${name} ${dtype}`)).toEqual([
      "d F64",
      "w F32",
      "b BF16",
      "h F16",
    ]);
    expect(fileValues(files.state)).toEqual({
      b: [1],
      h: [0.990234375],
      w: [Math.fround(1 - Math.fround(0.001))],
      d: [Math.fround(1 / 3 - 0.5)],
    });
    expect(new Float64Array(new Uint8Array(view.read("d").bytes).buffer)[0]).toBe(1 / 3 - 0.5);
    expect(Object.keys(fileValues(files.momentum))).toEqual(["b", "d", "h", "w"]);
  });

  test("are refused when there is no arithmetic for them", () => {
    for (const [dtype, bytes] of [
      ["C64", 8],
      ["F8_E4M3", 1],
    ] as const) {
      const tensor: TensorInput = { name: "w", dtype, shape: [1], data: new Uint8Array(bytes) };
      const inputs = { state: memory(tensor), deltas: [memory(f32("w", 1))], lr: 1, mu: 0 };
      expect(() => outerStep(inputs)).toThrow(code("unsupported_dtype"));
    }
  });
});

test("many pieces and tensors, from files: the same as from memory", async () => {
  const size = 2 ** 18 * 2 + 5;
  const tensors = (seed: number): TensorInput[] => [
    {
      name: "big",
      dtype: "F32",
      shape: [size],
      data: Float32Array.from({ length: size }, (_, i) => Math.sin(i + seed)),
    },
    { name: "empty", dtype: "F32", shape: [0], data: new Float32Array(0) },
    ...Array.from({ length: 20 }, (_, i) => f32(`small.${i}`, seed, i)),
  ];
  const settings = { lr: 0.7, mu: 0.9 };
  const memoryFiles = await step({
    state: memory(...tensors(1)),
    deltas: [memory(...tensors(2)), memory(...tensors(3))],
    ...settings,
  });
  const files = await step({
    state: await opened(...tensors(1)),
    deltas: [await opened(...tensors(2)), await opened(...tensors(3))],
    ...settings,
  });
  expect(Buffer.compare(files.state, memoryFiles.state)).toBe(0);
  expect(Buffer.compare(files.momentum, memoryFiles.momentum)).toBe(0);
  const at = 2 ** 18 + 3;
  const f = Math.fround;
  const g = f(f(f(Math.sin(at + 2)) + f(Math.sin(at + 3))) / 2);
  expect(fileValues(files.state).big![at]).toBe(f(f(Math.sin(at + 1)) - f(0.7) * f(g + f(f(0.9) * g))));
});

test("L-23: large tensors are read in small parts, whatever their number", async () => {
  let largest = 0;
  const size = 2 ** 20;
  const watched = () => {
    const data = new Float32Array(size).fill(1);
    const source = bytesSource(encodeSafetensors([{ name: "w", dtype: "F32", shape: [size], data }]));
    const read = (offset: number, length: number) => {
      largest = Math.max(largest, length);
      return source.read(offset, length);
    };
    const readInto = async (offset: number, target: Uint8Array) =>
      target.set(await read(offset, target.byteLength));
    return openSafetensors({ ...source, read, readInto });
  };
  const state = await watched();
  const deltas = [await watched(), await watched()];
  const files = await step({ state, momentum: await watched(), deltas, lr: 0.5, mu: 0 });
  expect(fileValues(files.state).w!.every((value) => value === 0.5)).toBe(true);
  expect(largest).toBe(2 ** 19);
});

describe("refusals", () => {
  const state = memory(f32("w", 1));
  const deltas = [memory(f32("w", 1))];

  test("settings", () => {
    for (const lr of [0, -1, Number.NaN, Infinity]) {
      expect(() => outerStep({ state, deltas, lr, mu: 0 })).toThrow(code("invalid_setting"));
    }
    for (const mu of [-0.1, 1, Number.NaN]) {
      expect(() => outerStep({ state, deltas, lr: 1, mu })).toThrow(code("invalid_setting"));
    }
  });

  test("L-12: tensors that do not fit the state", () => {
    const refuse = (inputs: Partial<OuterStepInputs>) => () =>
      outerStep({ state, deltas, lr: 1, mu: 0, ...inputs });
    expect(refuse({ deltas: [] })).toThrow(code("no_deltas"));
    expect(refuse({ deltas: [memory(f32("v", 1))] })).toThrow(
      'the global state lacks "v"; the delta lacks "w"',
    );
    expect(refuse({ deltas: [memory(f32("w", 1, 2))] })).toThrow(code("shape_mismatch"));
    expect(refuse({ momentum: memory() })).toThrow('the momentum lacks "w"');
    expect(refuse({ momentum: memory(f32("w", 1, 2)) })).toThrow(code("shape_mismatch"));
    const wide: TensorInput = { name: "w", dtype: "F64", shape: [1], data: Float64Array.of(1) };
    expect(refuse({ momentum: memory(wide) })).toThrow("momentum must be F32, is F64");
  });

  test.each([
    ["NaN in a delta", { deltas: [memory(f32("w", Number.NaN))] }],
    ["an infinite delta", { deltas: [memory(f32("w", Infinity))] }],
    ["a delta that overflows", { deltas: [memory(f32("w", 3.4e38))], lr: 2 }],
    ["NaN in the state", { state: memory(f32("w", Number.NaN)) }],
    ["NaN in the momentum", { momentum: memory(f32("w", Number.NaN)) }],
  ])("%s ends the step before its piece is written", async (_, changed) => {
    const sink = new MemorySink();
    const work = writeOuterStep(
      { state, deltas, lr: 1, mu: 0.9, ...changed },
      { state: sink, momentum: new MemorySink() },
    );
    await expect(work).rejects.toThrow(code("non_finite"));
    await expect(work).rejects.toThrow('tensor "w": the outer step would make values that are not finite');
    expect(hex(sink.bytes)).toBe(hex(encodeSafetensors([f32("w", 1)]).subarray(0, -4)));
  });

  test("L-11: a full disk on either side ends both", async () => {
    const full = {
      write: async (chunk: Uint8Array) => {
        if (chunk.byteLength === 4) throw new Error("disk full");
      },
    };
    const states = memory(f32("a", 1), f32("b", 1));
    const inputs = { state: states, deltas: [states], lr: 1, mu: 0 };
    await expect(writeOuterStep(inputs, { state: full, momentum: new MemorySink() })).rejects.toThrow(
      "disk full",
    );
    await expect(writeOuterStep(inputs, { state: new MemorySink(), momentum: full })).rejects.toThrow(
      "disk full",
    );
  });
});
