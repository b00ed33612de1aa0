// `ckpt stats`: figures against sums done the simple way, every dtype, values that are no numbers.

import { join } from "node:path";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  bytesSource,
  encodeSafetensors,
  openSafetensors,
  SAFETENSORS_DTYPES,
  type TensorInput,
} from "../../src/formats/safetensors/index.js";
import { tensorStatistics } from "../../src/interchange/tools/statistics.js";
import { cli, scratchFolder } from "../cli/harness.js";
import { floats, noise, writeModel } from "./files.js";

const folder = scratchFolder();

async function statisticsOf(tensors: readonly TensorInput[], histogramColumns = 0) {
  const reader = await openSafetensors(bytesSource(encodeSafetensors(tensors)));
  const out = [];
  for await (const found of tensorStatistics(reader, undefined, { histogramColumns })) out.push(found);
  return out;
}

describe("figures", () => {
  test("are those of a simple computation, over many pieces", async () => {
    const values = Float64Array.from({ length: 300_000 }, (_, i) => 1000 + Math.sin(i) / 3);
    const [found] = await statisticsOf(
      [{ name: "w", dtype: "F64", shape: [values.length], data: values }],
      10,
    );
    const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
    const variance = values.reduce((sum, value) => sum + (value - mean) ** 2, 0) / values.length;
    expect(found!.mean).toBeCloseTo(mean, 9);
    expect(found!.std).toBeCloseTo(Math.sqrt(variance), 12);
    expect(found!.norm / Math.hypot(mean, Math.sqrt(variance)) / Math.sqrt(values.length)).toBeCloseTo(1, 12);
    expect(found!.min).toBe(values.reduce((a, b) => Math.min(a, b)));
    expect(found!.max).toBe(values.reduce((a, b) => Math.max(a, b)));
    expect(found!.histogram.reduce((sum, count) => sum + count, 0)).toBe(values.length);
    // A sine spends its time at both ends.
    expect(found!.histogram[0]).toBeGreaterThan(2 * found!.histogram[5]!);
  });

  test("histograms count every finite value, whatever comes first", () => {
    const value = fc.oneof(fc.double({ noNaN: false }), fc.constantFrom(0, -0, 1, 1e300, -1e-300, Infinity));
    return fc.assert(
      fc.asyncProperty(fc.array(value, { minLength: 1, maxLength: 50 }), async (list) => {
        const data = Float64Array.from(list);
        const [found] = await statisticsOf([{ name: "w", dtype: "F64", shape: [data.length], data }], 7);
        const finite = list.filter(Number.isFinite).length;
        expect(found!.histogram.reduce((sum, count) => sum + count, 0)).toBe(finite);
      }),
      { seed: 11, numRuns: 200 },
    );
  });

  test("every dtype is looked at, or said not to be", async () => {
    const tensors = SAFETENSORS_DTYPES.map((dtype): TensorInput => {
      const sizeBytes = { F6_E3M2: 3, F6_E2M3: 3, F4: 2 }[dtype as string] ?? 64;
      const shape = [/^F6_|^F4$/.test(dtype) ? 4 : (sizeBytes * 8) / bits(dtype)];
      return { name: dtype, dtype, shape, data: new Uint8Array(sizeBytes) };
    });
    const all = await statisticsOf(tensors);
    expect(all.map(({ entry, isDecoded }) => (isDecoded ? "" : entry.dtype)).join("")).toBe(
      "F6_E3M2F6_E2M3F4",
    );
    // All bits zero is 0, except where there is no zero.
    for (const { entry, max, isDecoded } of all)
      if (isDecoded && entry.dtype !== "F8_E8M0") expect([entry.dtype, max]).toEqual([entry.dtype, 0]);
  });
});

function bits(dtype: string): number {
  const width = /[0-9]+/.exec(dtype);
  return dtype === "BOOL" ? 8 : dtype === "C64" ? 64 : Number(width![0]);
}

describe("the command", () => {
  const strange = [Number.NaN, Number.NaN, Infinity, -Infinity, 1, 3];

  test("prints a row for each tensor and the sum", async () => {
    const path = await writeModel(join(folder, "m.safetensors"), [
      floats("a.weight", [-1, 0, 0, 1]),
      floats("b.weight", strange),
      floats("empty", []),
      noise("long.name.of.a.tensor.weight", [64, 8]),
    ]);
    const { code, out } = await cli(["ckpt", "stats", path], { env: { LANG: "C.UTF-8" } });
    expect(code).toBe(0);
    expect(out).toMatchInlineSnapshot(`
      "name                          dtype  shape      min     max   mean     std   norm  histogram         not finite
      a.weight                      F32    [4]         -1       1      0   0.707   1.41  ▅       █      ▅
      b.weight                      F32    [6]          1       3      2       1   3.16  █              █  2 NaN, 1 inf, 1 -inf
      empty                         F32    [0]          -       -      -       -      -
      long.name.of.a.tensor.weight  F32    [64, 8]  -0.02  0.0197  4e-05  0.0101  0.229  ▃▄▄▃▄▅▇█▇▄▆▆▅▃▄▃

      4 tensors, 522 values, 2.09 kB: 4 values not finite, norm of all 3.47
      "
    `);
  });

  test("--json carries counts, and texts for what JSON lacks", async () => {
    const path = await writeModel(join(folder, "j.safetensors"), [floats("b", strange), floats("e", [])]);
    const { out } = await cli(["ckpt", "stats", path, "--json"]);
    const [b, e] = JSON.parse(out).tensors;
    expect(b).toMatchObject({
      nan: 2,
      positiveInfinite: 1,
      negativeInfinite: 1,
      min: 1,
      max: 3,
      mean: 2,
      std: 1,
    });
    expect(e).toMatchObject({ count: 0, min: "NaN", histogram: [] });
  });

  test("a part that a file does not have, and a pattern that matches nothing", async () => {
    const path = await writeModel(join(folder, "p.safetensors"), [floats("a", [1])]);
    const part = await cli(["ckpt", "stats", path, "--part", "optimizer"]);
    expect([part.code, part.err.includes("has no such part; it has model")]).toEqual([2, true]);
    const pattern = await cli(["ckpt", "stats", path, "--only", "b*"]);
    expect([pattern.code, pattern.err.includes("no tensor of")]).toEqual([2, true]);
  });
});
