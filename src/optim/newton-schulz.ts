// Newton-Schulz iterations towards the nearest orthogonal matrix, as a graph over a stack of equally shaped
// matrices, so that the backend's matrix products do the work; and the normalisation of Muon+.

import { add, div, mul, sqrt } from "../tensor/functions/elementwise.js";
import { matmul, sum } from "../tensor/functions/linalg.js";
import type { Tensor } from "../tensor/tensor.js";
import type { Graph } from "../tensor/trace/graph.js";
import { trace } from "../tensor/trace/trace.js";
import type { MuonPlusMode } from "./muon-plus.js";

/** A quintic whose repeated use takes singular values between 0 and 1 near 1, fast rather than exactly. */
const [linear, cubic, quintic] = [3.4445, -4.775, 2.0315];
/** Against division by zero. */
const normEps = 1e-7;

export interface StackShape {
  readonly count: number;
  readonly rows: number;
  readonly columns: number;
}

export interface OrthogonalizeOptions {
  readonly steps: number;
  readonly plus: MuonPlusMode;
  readonly plusEps: number;
}

/** Names of the graph's input and output. */
export const directionFeed = "direction";
export const orthogonalResult = "orthogonal";

/** [count, rows, columns] in and out. The products are those of the shorter side, whichever it is. */
export function orthogonalizeGraph(
  { count, rows, columns }: StackShape,
  { steps, plus, plusEps }: OrthogonalizeOptions,
): Graph {
  return trace(
    (inputs) => {
      const direction = inputs[directionFeed];
      const polar = iterate(direction, rows > columns, steps);
      return { [orthogonalResult]: normalizeLengths(polar, plus, plusEps) };
    },
    { [directionFeed]: { dtype: "float32", shape: [count, rows, columns] } },
  );
}

function iterate(direction: Tensor, isTall: boolean, steps: number): Tensor {
  const norm = sqrt(sum(mul(direction, direction), { axis: [1, 2], keepDims: true }));
  let x = div(direction, add(norm, normEps));
  for (let step = 0; step < steps; step++) {
    const gram = matmul(x, x, isTall ? { transA: true } : { transB: true });
    const factor = add(mul(gram, cubic), mul(matmul(gram, gram), quintic));
    x = add(mul(x, linear), isTall ? matmul(x, factor) : matmul(factor, x));
  }
  return x;
}

/** Axes of [count, rows, columns] to sum over, mode by mode. */
const axesOf: Readonly<Record<MuonPlusMode, readonly number[]>> = {
  none: [],
  row: [2],
  col: [1],
  row_col: [2, 1],
  col_row: [1, 2],
};

function normalizeLengths(x: Tensor, mode: MuonPlusMode, eps: number): Tensor {
  return axesOf[mode].reduce(
    (value, axis) => div(value, sqrt(add(sum(mul(value, value), { axis, keepDims: true }), eps))),
    x,
  );
}
