// The memory estimate on graphs whose peak can be told by hand.

import { describe, expect, it } from "vitest";
import { peakActivationBytes } from "../../src/tensor/peak-memory.js";
import type { Graph } from "../../src/tensor/trace/graph.js";

/** A chain of nodes over float32 vectors of the given lengths; value 0 is the input. */
function graphOf(
  lengths: readonly number[],
  nodes: readonly (readonly [op: string, inputs: readonly number[], output: number])[],
  results: readonly number[],
): Graph {
  return {
    values: lengths.map((length) => ({ shape: [length], dtype: "float32" })),
    nodes: nodes.map(([op, inputs, output]) => ({ op, params: {}, inputs, outputs: [output] })),
    inputs: [{ name: "x", value: 0 }],
    constants: [],
    outputs: results.map((value, i) => ({ name: `r${i}`, value })),
  } as unknown as Graph;
}

describe("peak of the values between inputs and results", () => {
  it("counts what is alive at once, and neither inputs nor results", () => {
    // 1 and 2 are both needed for 3; 4 is a result.
    const nodes = [
      ["matmul", [0], 1],
      ["matmul", [0], 2],
      ["matmul", [1, 2], 3],
      ["matmul", [3], 4],
    ] as const;
    expect(peakActivationBytes(graphOf([1000, 10, 20, 5, 1000], nodes, [4]))).toBe(4 * (10 + 20 + 5));
  });

  it("lets an elementwise result take the place of an input that ends", () => {
    const nodes = [
      ["matmul", [0], 1],
      ["exp", [1], 2],
      ["matmul", [2], 3],
    ] as const;
    expect(peakActivationBytes(graphOf([9, 50, 50, 9], nodes, [3]))).toBe(4 * 50);
    const kept = [...nodes.slice(0, 2), ["matmul", [1, 2], 3]] as const;
    expect(peakActivationBytes(graphOf([9, 50, 50, 9], kept, [3]))).toBe(4 * 100);
  });

  it("counts a reshaped value once, for as long as either form is used", () => {
    const nodes = [
      ["matmul", [0], 1],
      ["reshape", [1], 2],
      ["matmul", [0], 3],
      ["matmul", [2, 3], 4],
    ] as const;
    expect(peakActivationBytes(graphOf([9, 50, 50, 10, 9], nodes, [4]))).toBe(4 * 60);
  });
});
