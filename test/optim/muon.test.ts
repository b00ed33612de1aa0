// Muon and Muon+ against numbers of PyTorch in float64, and the shapes a stack can have.

import { describe, expect, it } from "vitest";
import { type MuonPlusMode, muonPlusModes } from "../../src/optim/muon-plus.js";
import { directionFeed, orthogonalizeGraph, orthogonalResult } from "../../src/optim/newton-schulz.js";
import { evaluateGraph } from "../../src/tensor/index.js";
import { gap, makeBench, muonHyper, parameter } from "./harness.js";

const gradient = Array.from({ length: 6 }, (_, i) => Math.sin(1 + 3 * Math.floor(i / 2) + (i % 2)));
const reversed = [...gradient.slice(4), ...gradient.slice(2, 4), ...gradient.slice(0, 2)];
const start = Array.from({ length: 6 }, (_, i) => 0.1 * (Math.floor(i / 2) + 1) * ((i % 2) - 0.5));
const polar = [0.864287, -0.160203, -0.243084, -0.325442, -0.382985, 0.804574];

async function orthogonalize(
  values: readonly number[],
  [count, rows, columns]: readonly [number, number, number],
  plus: MuonPlusMode = "none",
): Promise<Float32Array> {
  const graph = orthogonalizeGraph({ count, rows, columns }, { steps: 5, plus, plusEps: 1e-8 });
  const data = Float32Array.from(values);
  const feed = { dtype: "float32", shape: [count, rows, columns], data } as const;
  const results = await evaluateGraph(graph, { [directionFeed]: feed });
  return results[orthogonalResult]!.data as Float32Array;
}

/** Σ of squares of each row, or each column, of a 3 × 2 matrix. */
const lengths = (u: ArrayLike<number>, of: "rows" | "columns") =>
  of === "rows"
    ? [0, 1, 2].map((r) => u[2 * r]! ** 2 + u[2 * r + 1]! ** 2)
    : [0, 1].map((c) => u[c]! ** 2 + u[2 + c]! ** 2 + u[4 + c]! ** 2);

describe("Newton-Schulz", () => {
  it("gives PyTorch's numbers, tall and wide, alone and in a stack", async () => {
    expect(gap(await orthogonalize(gradient, [1, 3, 2]), polar)).toBeLessThan(3e-6);
    const turn = (m: readonly number[]) => [m[0]!, m[2]!, m[4]!, m[1]!, m[3]!, m[5]!];
    expect(gap(await orthogonalize(turn(gradient), [1, 2, 3]), turn(polar))).toBeLessThan(3e-6);
    const larger = gradient.map((x) => 1000 * x);
    const stacked = await orthogonalize([...gradient, ...larger], [2, 3, 2]);
    expect(gap(stacked, [...polar, ...polar])).toBeLessThan(3e-6);
  });

  it("leaves zeros at zero", async () => {
    expect([...(await orthogonalize(Array(6).fill(0), [1, 3, 2], "row_col"))]).toEqual(Array(6).fill(0));
  });

  it("makes the lengths 1 that the mode of Muon+ names last", async () => {
    const plus = [0.800258, -0.14929, -0.487053, -0.656268, -0.34981, 0.739611];
    const found = Object.fromEntries(
      await Promise.all(
        muonPlusModes.map(async (mode) => [mode, await orthogonalize(gradient, [1, 3, 2], mode)] as const),
      ),
    );
    expect(gap(found.none!, polar)).toBeLessThan(3e-6);
    expect(gap(found.row_col!, plus)).toBeLessThan(3e-6);
    expect(gap(lengths(found.row!, "rows"), [1, 1, 1])).toBeLessThan(1e-6);
    expect(gap(lengths(found.col!, "columns"), [1, 1])).toBeLessThan(1e-6);
    expect(gap(lengths(found.col_row!, "rows"), [1, 1, 1])).toBeLessThan(1e-6);
    expect(gap(found.col_row!, [...found.row!])).toBeGreaterThan(1e-2);
  });
});

describe("muon", () => {
  it("gives PyTorch's numbers over two updates", async () => {
    const { store, step } = await makeBench("muon", [parameter("w", [3, 2])], { w: start });
    await step({ w: gradient });
    expect(
      gap(store.parameter("w").data, [-0.0710706, 0.0538242, -0.0938457, 0.1077717, -0.1403188, 0.129992]),
    ).toBeLessThan(3e-7);
    await step({ w: reversed }, { count: 2 });
    expect(
      gap(store.parameter("w").data, [-0.0651115, 0.0367107, -0.0875733, 0.1153902, -0.1579027, 0.1312265]),
    ).toBeLessThan(3e-7);
  });

  it("gives PyTorch's numbers with Muon+", async () => {
    const muon = { ...muonHyper, plus: "row_col" } as const;
    const { store, step } = await makeBench("muon", [parameter("w", [3, 2])], { w: start }, { muon });
    await step({ w: gradient });
    expect(
      gap(store.parameter("w").data, [-0.0695022, 0.0535568, -0.0878697, 0.1158752, -0.1411314, 0.1315833]),
    ).toBeLessThan(3e-7);
  });

  it("updates equal shapes in a stack as it would one by one, padded ones too", async () => {
    const wave = (n: number, salt: number) => Array.from({ length: n }, (_, i) => Math.sin(1.3 * i + salt));
    const shapes = { a: [4, 8], b: [4, 8], c: [8, 4], d: [3, 5], e: [3, 5] } as const;
    const names = Object.keys(shapes) as (keyof typeof shapes)[];
    const values = Object.fromEntries(names.map((n, i) => [n, wave(shapes[n][0] * shapes[n][1], i)]));
    const grads = Object.fromEntries(names.map((n, i) => [n, wave(shapes[n][0] * shapes[n][1], i + 9)]));
    const together = await makeBench(
      "muon",
      names.map((n) => parameter(n, shapes[n])),
      values,
    );
    await together.step(grads);
    for (const n of names) {
      const alone = await makeBench("muon", [parameter(n, shapes[n])], { [n]: values[n]! });
      await alone.step({ [n]: grads[n]! });
      expect([n, gap(together.store.parameter(n).data, [...alone.store.parameter(n).data])]).toEqual([n, 0]);
      expect(gap(together.store.parameter(n).data, values[n]!)).toBeGreaterThan(1e-3);
    }
  });

  it("has a rate, a decay and a scale of its own", async () => {
    const moved = async (changes: Partial<typeof muonHyper>) => {
      const muon = { ...muonHyper, weightDecay: 0, ...changes };
      const { store, step } = await makeBench("muon", [parameter("w", [3, 2])], { w: start }, { muon });
      await step({ w: gradient });
      return Array.from(store.parameter("w").data, (x, i) => (x - start[i]!) / polar[i]!);
    };
    const plain = -0.02 * Math.sqrt(1.5);
    expect(gap(await moved({}), Array(6).fill(plain))).toBeLessThan(1e-6);
    expect(gap(await moved({ lrScale: 3 }), Array(6).fill(3 * plain))).toBeLessThan(1e-6);
    expect(gap(await moved({ scale: "rms" }), Array(6).fill(-0.02 * 0.2 * Math.sqrt(3)))).toBeLessThan(1e-6);
  });

  it("keeps state only for what each rule updates, beside AdamW", async () => {
    const { store } = await makeBench(
      "muon",
      [parameter("norm", [7], { rule: "adamw", decays: false }), parameter("w", [3, 2], { rule: "muon" })],
      {},
    );
    expect(store.slotsOf("norm")).toEqual(["exp_avg", "exp_avg_sq"]);
    expect(store.slotsOf("w")).toEqual(["momentum_buffer"]);
    expect([...store.snapshot([]).optimizer.keys()].sort()).toEqual([
      "norm.exp_avg",
      "norm.exp_avg_sq",
      "w.momentum_buffer",
    ]);
    // Two tensors of 16 values with padding: both have a first slot, one has a second.
    expect(store.snapshotBytes()).toEqual([4 * (32 + 32 + 16)]);
  });
});
