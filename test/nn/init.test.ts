import { describe, expect, it } from "vitest";
import {
  createParameter,
  init,
  initialize,
  Linear,
  Module,
  ReferenceTransformer,
} from "../../src/nn/index.js";
import { Parameter, type Shape } from "../../src/tensor/index.js";
import { tinyTransformer } from "./helpers.js";

function drawn(shape: Shape, initializer: init.Initializer, seed = 3): Float32Array {
  class One extends Module {
    readonly weight = createParameter(shape, initializer);
  }
  const module = new One();
  initialize(module, seed);
  return module.weight.data;
}

function statistics(values: Float32Array) {
  const mean = values.reduce((sum, x) => sum + x, 0) / values.length;
  const moment = (power: number) => values.reduce((sum, x) => sum + (x - mean) ** power, 0) / values.length;
  return { mean, std: Math.sqrt(moment(2)), kurtosis: moment(4) / moment(2) ** 2 };
}

describe("initialisers", () => {
  const shape = [200, 500];

  it.each([
    ["normal", init.normal({ mean: 1, std: 0.02 }), 1, 0.02, 3],
    ["uniform", init.uniform({ low: -1, high: 3 }), 1, 4 / Math.sqrt(12), 1.8],
    ["xavier normal", init.xavierNormal({ gain: 2 }), 0, 2 * Math.sqrt(2 / 700), 3],
    ["xavier uniform", init.xavierUniform(), 0, Math.sqrt(2 / 700), 1.8],
    ["kaiming normal", init.kaimingNormal({ fan: "out" }), 0, Math.sqrt(2 / 200), 3],
    ["kaiming uniform", init.kaimingUniform({ slope: 2 }), 0, Math.sqrt(2 / (5 * 500)), 1.8],
  ])("%s has its mean, deviation and kurtosis", (_, initializer, mean, std, kurtosis) => {
    const found = statistics(drawn(shape, initializer));
    expect(Math.abs(found.mean - mean) / std).toBeLessThan(0.015);
    expect(Math.abs(found.std / std - 1)).toBeLessThan(0.01);
    expect(Math.abs(found.kurtosis - kurtosis)).toBeLessThan(0.06);
  });

  it("keep uniform draws in range and fill odd sizes", () => {
    const values = drawn([10001], init.uniform({ low: 2, high: 3 }));
    expect(Math.min(...values)).toBeGreaterThanOrEqual(2);
    expect(Math.max(...values)).toBeLessThanOrEqual(3);
    expect(drawn([3], init.normal()).every((x) => x !== 0)).toBe(true);
    expect([...drawn([2], init.ones())]).toEqual([1, 1]);
    expect([...drawn([2], init.constant(7))]).toEqual([7, 7]);
  });

  it("refuse fans of a vector", () => {
    expect(() => drawn([4], init.xavierNormal())).toThrow(
      /fans are defined for weights \[out, in, …\], not for shape \[4\]/,
    );
  });
});

describe("initialize", () => {
  it("depends on seed and name only", () => {
    class Pair extends Module {
      readonly a = new Linear(4, 4);
      readonly b = new Linear(4, 4);
    }
    class Reversed extends Module {
      readonly b = new Linear(4, 4);
      readonly a = new Linear(4, 4);
    }
    const [pair, reversed, other] = [new Pair(), new Reversed(), new Pair()];
    initialize(pair, 5);
    initialize(reversed, 5);
    initialize(other, 6);
    expect(pair.a.weight.data).toEqual(reversed.a.weight.data);
    expect(pair.b.bias?.data).toEqual(reversed.b.bias?.data);
    expect(pair.a.weight.data).not.toEqual(pair.b.weight.data);
    expect(pair.a.weight.data).not.toEqual(other.a.weight.data);
  });

  it("never changes: pinned bits", () => {
    expect([...drawn([4], init.normal(), 0)]).toMatchInlineSnapshot(`
      [
        0.581577479839325,
        -1.8242131471633911,
        -0.26606157422065735,
        0.6553589701652527,
      ]
    `);
    expect([...drawn([3], init.uniform(), -1)]).toMatchInlineSnapshot(`
      [
        0.3257097005844116,
        0.8549764752388,
        0.9065448045730591,
      ]
    `);
  });

  it("distinguishes seeds beyond 32 bits and refuses what is no integer", () => {
    expect(drawn([4], init.normal(), 1)).not.toEqual(drawn([4], init.normal(), 1 + 2 ** 32));
    expect(() => initialize(new Linear(1, 1), 0.5)).toThrow(/seed 0.5 is not a safe integer/);
  });

  it("leaves parameters without initialiser alone", () => {
    class Fixed extends Module {
      readonly weight = new Parameter([2], { data: Float32Array.of(3, 4) });
    }
    const module = new Fixed();
    initialize(module, 0);
    expect([...module.weight.data]).toEqual([3, 4]);
  });

  it("starts the reference model as its specification says", () => {
    const model = tinyTransformer({ vocabSize: 512, dModel: 64, nLayer: 3, nHead: 4 });
    for (const [name, parameter] of model.namedParameters())
      if (parameter.rank === 1) expect([name, ...new Set(parameter.data)]).toEqual([name, 1]);
    const wte = statistics(model.transformer.wte.weight.data);
    expect(Math.abs(wte.std / 0.02 - 1)).toBeLessThan(0.02);

    const scaled = new ReferenceTransformer({ ...model.options, residualScaledInit: true });
    initialize(scaled, 1);
    const ratio = (name: string) =>
      scaled.namedParameters().get(name)!.data[0]! / model.namedParameters().get(name)!.data[0]!;
    expect(ratio("transformer.h.1.attn.out_proj.weight")).toBeCloseTo(1 / Math.sqrt(6), 5);
    expect(ratio("transformer.h.1.mlp.down_proj.weight")).toBeCloseTo(1 / Math.sqrt(6), 5);
    expect(ratio("transformer.h.1.attn.q_proj.weight")).toBe(1);
  });
});
