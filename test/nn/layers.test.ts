import { describe, expect, it } from "vitest";
import {
  CausalSelfAttention,
  crossEntropy,
  Dropout,
  Embedding,
  GatedMlp,
  initialize,
  LayerNorm,
  Linear,
  meanLoss,
  RMSNorm,
  RotaryTable,
  Sequential,
} from "../../src/nn/index.js";
import { createOnnxBackend } from "../../src/tensor/backends/onnx/backend.node.js";
import { constant, evaluate, evaluateGraph, relu, trace, withTrace } from "../../src/tensor/index.js";
import { bool, float32, int32, largestDifference, rng, valuesOf } from "./helpers.js";

const tensor = (shape: readonly number[], values: ArrayLike<number>) => constant(float32(shape, values));

describe("layers", () => {
  it("Linear multiplies with the transposed weight and adds the bias, over any leading axes", () => {
    const layer = new Linear(2, 3);
    layer.weight.data.set([1, 2, 3, 4, 5, 6]);
    layer.bias!.data.set([10, 20, 30]);
    const result = evaluate(layer.forward(tensor([2, 1, 2], [1, 1, 0, 2])));
    expect(result.shape).toEqual([2, 1, 3]);
    expect([...result.data]).toEqual([13, 27, 41, 14, 28, 42]);
    expect(new Linear(2, 3, { bias: false }).stateDict().size).toBe(1);
  });

  it("Linear and Embedding start like PyTorch's", () => {
    const layer = new Linear(25, 1000);
    initialize(layer, 0);
    for (const { data } of layer.stateDict().values()) {
      expect(Math.max(...data)).toBeLessThanOrEqual(0.2);
      expect(Math.max(...data)).toBeGreaterThan(0.195);
      expect(Math.min(...data)).toBeLessThan(-0.195);
    }
    const table = new Embedding(100, 100);
    initialize(table, 0);
    expect(table.weight.data.reduce((sum, x) => sum + x * x, 0) / 1e4).toBeCloseTo(1, 1);
  });

  it("Embedding looks rows up", () => {
    const table = new Embedding(3, 2);
    table.weight.data.set([0, 1, 10, 11, 20, 21]);
    expect(valuesOf(table.forward(int32([[2, 0]])))).toEqual([20, 21, 0, 1]);
  });

  it("LayerNorm and RMSNorm normalise the last axis", () => {
    const [layer, rms] = [new LayerNorm(2), new RMSNorm(2)];
    initialize(layer, 0);
    initialize(rms, 0);
    layer.bias.data.set([5, 5]);
    expect(
      largestDifference(valuesOf(layer.forward(tensor([1, 2], [1, 3]))), [4.000005, 5.999995]),
    ).toBeLessThan(1e-6);
    const root = Math.sqrt(5 + 1e-5);
    expect(
      largestDifference(valuesOf(rms.forward(tensor([1, 2], [1, 3]))), [1 / root, 3 / root]),
    ).toBeLessThan(1e-6);
  });

  it("Sequential runs modules and functions", () => {
    const chain = new Sequential(new Linear(1, 2, { bias: false }), relu);
    chain.namedParameters().get("0.weight")!.data.set([1, -1]);
    expect(valuesOf(chain.forward(tensor([1, 1], [3])))).toEqual([3, 0]);
  });

  it("GatedMlp is down(silu(gate) · up)", () => {
    const mlp = new GatedMlp(1, 1);
    mlp.gate_proj.weight.data.set([2]);
    mlp.up_proj.weight.data.set([3]);
    mlp.down_proj.weight.data.set([5]);
    expect(valuesOf(mlp.forward(tensor([1, 1], [1])))[0]).toBeCloseTo((5 * 3 * 2) / (1 + Math.exp(-2)), 5);
  });

  it("refuse sizes and rates that make no sense", () => {
    expect(() => new Linear(0, 1)).toThrow(/Linear: inputs must be a positive integer, got 0/);
    expect(() => new Dropout(1)).toThrow(/at least 0 and below 1, got 1/);
    expect(() => new CausalSelfAttention({ width: 6, heads: 4 })).toThrow(
      /4 heads do not divide the width 6/,
    );
    expect(() => new CausalSelfAttention({ width: 8, heads: 4, keyHeads: 3 })).toThrow(
      /3 key heads do not divide 4 heads/,
    );
    expect(() => new RotaryTable(4, 3, 10000)).toThrow(/head width 3 is odd/);
  });
});

describe("RotaryTable", () => {
  it("holds float32 cosines and sines of t · base^(−2j/width)", () => {
    const [cos, sin] = evaluate([
      new RotaryTable(5, 4, 100).rows(3).cos,
      new RotaryTable(5, 4, 100).rows(3).sin,
    ]);
    expect(cos!.shape).toEqual([3, 2]);
    const angle = Math.fround(2 * Math.fround(0.1));
    expect([...cos!.data.slice(4)]).toEqual([Math.fround(Math.cos(2)), Math.fround(Math.cos(angle))]);
    expect([...sin!.data.slice(4)]).toEqual([Math.fround(Math.sin(2)), Math.fround(Math.sin(angle))]);
  });
});

describe("CausalSelfAttention", () => {
  it("equals a plain computation, with biases, grouped heads and a key mask", () => {
    const [T, B, D, H, K] = [4, 2, 8, 4, 2];
    const W = D / H;
    const layer = new CausalSelfAttention({ width: D, heads: H, keyHeads: K, bias: true });
    initialize(layer, 2);
    const x = Float32Array.from({ length: T * B * D }, (_, i) => Math.sin(i * 1.7));
    const mask = [
      [1, 0, 1, 1],
      [0, 0, 1, 1],
    ];
    const project = (linear: Linear, t: number, b: number, feature: number) => {
      let sum = linear.bias!.data[feature]!;
      for (let d = 0; d < D; d++) sum += x[(t * B + b) * D + d]! * linear.weight.data[feature * D + d]!;
      return sum;
    };
    const expected: number[] = [];
    for (let t = 0; t < T; t++)
      for (let b = 0; b < B; b++) {
        const mixed: number[] = [];
        for (let h = 0; h < H; h++) {
          const k = Math.floor((h * K) / H);
          const visible = [...Array(t + 1).keys()].filter((s) => mask[b]![s] === 1);
          const scores = visible.map((s) => {
            let dot = 0;
            for (let w = 0; w < W; w++)
              dot += project(layer.q_proj, t, b, h * W + w) * project(layer.k_proj, s, b, k * W + w);
            return Math.exp(dot / Math.sqrt(W));
          });
          const total = scores.reduce((a, c) => a + c, 0);
          for (let w = 0; w < W; w++)
            mixed.push(
              visible.reduce(
                (sum, s, i) => sum + (scores[i]! / total) * project(layer.v_proj, s, b, k * W + w),
                0,
              ),
            );
        }
        for (let o = 0; o < D; o++) {
          let sum = layer.out_proj.bias!.data[o]!;
          for (let d = 0; d < D; d++) sum += mixed[d]! * layer.out_proj.weight.data[o * D + d]!;
          expected.push(sum);
        }
      }
    const result = layer.forward(tensor([T, B, D], x), { keyMask: bool(mask) });
    expect(largestDifference(valuesOf(result), expected)).toBeLessThan(1e-5);
  });
});

describe("Dropout", () => {
  const drop = (rate: number, training: boolean) =>
    withTrace({ training }, () =>
      new Dropout(rate).forward(tensor([10000], new Float32Array(10000).fill(1))),
    );

  it("drops the given share and scales the rest, as a function of seed and step", () => {
    const values = valuesOf(drop(0.25, true), rng(1, 0));
    expect([...new Set(values.map((x) => Math.round(x * 1e4) / 1e4))].sort()).toEqual([0, 1.3333]);
    expect(values.filter((x) => x === 0).length / values.length).toBeCloseTo(0.25, 1);
    expect(valuesOf(drop(0.25, true), rng(1, 0))).toEqual(values);
    expect(valuesOf(drop(0.25, true), rng(1, 1))).not.toEqual(values);
    expect(valuesOf(drop(0.25, true), rng(2, 0))).not.toEqual(values);
  });

  it("does nothing when not training, or at rate 0", () => {
    for (const result of [drop(0.25, false), drop(0, true), new Dropout(0.5).forward(tensor([1], [1]))])
      expect(new Set(valuesOf(result))).toEqual(new Set([1]));
  });
});

describe("crossEntropy", () => {
  it("sums over counted labels, and means 0 over none", () => {
    const logits = tensor([3, 2], [0, 0, 1, 3, 9, 9]);
    const labels = (values: number[]) =>
      constant({ dtype: "int32" as const, shape: [3], data: Int32Array.from(values) });
    const summed = crossEntropy(logits, labels([0, 0, -100]));
    const expected = Math.log(2) + Math.log(1 + Math.exp(2));
    expect(valuesOf(summed.lossSum)[0]).toBeCloseTo(expected, 6);
    expect(valuesOf(summed.count)).toEqual([2]);
    expect(valuesOf(meanLoss(summed))[0]).toBeCloseTo(expected / 2, 6);
    expect(valuesOf(meanLoss(crossEntropy(logits, labels([-100, -100, -100]))))[0]).toBeCloseTo(0, 12);
    expect(() => crossEntropy(logits, int32([[0, 0, 0]]))).toThrow(
      /needs logits \[N, C\] and labels \[N\], got \[3, 2\] and \[1, 3\]/,
    );
  });

  it("never takes a label outside the classes for one", async () => {
    const graph = trace(({ logits, labels }) => ({ loss: meanLoss(crossEntropy(logits, labels)) }), {
      logits: { shape: [3, 2], dtype: "float32" },
      labels: { shape: [3], dtype: "int32" },
    });
    const feeds = (label: number) => ({
      logits: { dtype: "float32" as const, shape: [3, 2], data: Float32Array.of(0, 0, 1, 3, 9, 9) },
      labels: { dtype: "int32" as const, shape: [3], data: Int32Array.of(0, -100, label) },
    });
    const executable = await (await createOnnxBackend({ threads: 1 })).compile(graph);
    const loss = async (label: number) => (await executable.run(feeds(label))).loss!.data[0];
    expect(await loss(1)).toBeCloseTo(Math.log(2), 6);
    expect(await loss(-1)).toBeNaN();
    for (const label of [-3, 2])
      await expect(loss(label)).rejects.toThrow("Out of range value in index tensor");
    await executable.close();
    for (const label of [-1, 2])
      expect(() => evaluateGraph(graph, feeds(label))).toThrow(
        `index ${label} at position 2 is out of range`,
      );
  });
});
