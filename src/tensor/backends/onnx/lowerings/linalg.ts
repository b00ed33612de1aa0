// ONNX lowerings of matrix products, reductions and scans.

import { ModelError } from "../../../../util/errors.js";
import type { OpName, OpParams } from "../../../ops/params.js";
import { sizeOf } from "../../../shape.js";
import type { OnnxName } from "../builder.js";
import { type LoweredValue, type Lowering, type LoweringContext, reshapeTo } from "../lowering.js";
import { elementTypes } from "../schema.js";

const transposeAttributes = ({ transA, transB }: OpParams["matmul"]) => ({
  ...(transA ? { transA: 1 } : {}),
  ...(transB ? { transB: 1 } : {}),
});

/** ONNX Runtime leaves a product over no terms uninitialised in some kernels, so those never reach it. */
const hasNoTerms = ({ transA }: OpParams["matmul"], a: LoweredValue): boolean =>
  a.shape.at(transA ? -2 : -1) === 0;

const matmul: Lowering<"matmul"> = ({ b, params, inputs, outputs }) => {
  const names = inputs.map((t) => t.name);
  if (hasNoTerms(params, inputs[0]!)) return [b.emit("Expand", [b.float(0), b.ints(outputs[0]!.shape)])];
  if (!params.transA && !params.transB) return [b.emit("MatMul", names)];
  return [b.emitMicrosoft("FusedMatMul", names, transposeAttributes(params))];
};

/** Gemm with its addend: accumulates into a copy of c instead of a separate pass over the product. */
const matmulAdd: Lowering<"matmulAdd"> = ({ b, params, inputs, outputs }) => {
  const [x, y, c] = inputs as [LoweredValue, LoweredValue, LoweredValue];
  const { shape } = outputs[0]!;
  if (hasNoTerms(params, x)) return [c.name];
  if (params.transA && x.shape.length > 2) {
    const batched = b.emitMicrosoft("FusedMatMul", [x.name, y.name], transposeAttributes(params));
    return [b.emit("Add", [batched, c.name])];
  }
  const rows = sizeOf(shape.slice(0, -1));
  const flat = shape.length === 2;
  const left = flat ? x.name : reshapeTo(b, x.name, [rows, x.shape.at(-1)!]);
  const addend = flat ? c.name : reshapeTo(b, c.name, [rows, shape.at(-1)!]);
  const product = b.emit("Gemm", [left, y.name, addend], transposeAttributes(params));
  return [flat ? product : reshapeTo(b, product, shape)];
};

const reduction =
  <K extends "sum" | "mean">(opType: string): Lowering<K> =>
  ({ b, params, inputs }: LoweringContext<K>) => {
    const { axes, keepDims } = params as OpParams["sum"];
    if (axes.length === 0) return [inputs[0]!.name];
    return [b.emit(opType, [inputs[0]!.name, b.ints(axes)], { keepdims: keepDims ? 1 : 0 })];
  };

/** ONNX Runtime's ReduceMax and ReduceMin find a NaN only at the start of a line, so it is looked for apart. */
const extreme =
  <K extends "max" | "min">(opType: string): Lowering<K> =>
  ({ b, params, inputs }: LoweringContext<K>) => {
    const { axes, keepDims } = params as OpParams["max"];
    const x = inputs[0]!.name;
    if (axes.length === 0) return [x];
    const over = (type: string, value: OnnxName) =>
      b.emit(type, [value, b.ints(axes)], { keepdims: keepDims ? 1 : 0 });
    const marks = b.emit("Cast", [b.emit("IsNaN", [x])], { to: elementTypes.float32 });
    const hasNaN = b.emit("Cast", [over("ReduceMax", marks)], { to: elementTypes.bool });
    return [b.emit("Where", [hasNaN, b.float(Number.NaN), over(opType, x)])];
  };

const alongAxis =
  <K extends "softmax" | "logSoftmax">(opType: string): Lowering<K> =>
  ({ b, params, inputs }: LoweringContext<K>) => [
    b.emit(opType, [inputs[0]!.name], { axis: (params as OpParams["softmax"]).axis }),
  ];

export const linalgLowerings = {
  matmul,
  matmulAdd,
  sum: reduction("ReduceSum"),
  mean: reduction("ReduceMean"),
  max: extreme("ReduceMax"),
  min: extreme("ReduceMin"),
  argmax: ({ b, params, inputs }) => {
    const index = b.emit("ArgMax", [inputs[0]!.name], {
      axis: params.axis,
      keepdims: params.keepDims ? 1 : 0,
    });
    return [b.emit("Cast", [index], { to: elementTypes.int32 })];
  },
  logsumexp: ({ b, params, inputs }) => [
    b.emit("ReduceLogSumExp", [inputs[0]!.name, b.ints([params.axis])], {
      keepdims: params.keepDims ? 1 : 0,
    }),
  ],
  cumsum: ({ b, params, inputs }) => [
    b.emit("CumSum", [inputs[0]!.name, b.int64([params.axis], [])], params.reverse ? { reverse: 1 } : {}),
  ],
  softmax: alongAxis("Softmax"),
  logSoftmax: alongAxis("LogSoftmax"),
} satisfies Partial<{ [K in OpName]: Lowering<K> }>;

/** For rows that the host computes: a lowering must never meet one. */
export function refuseHostOperator(op: string): never {
  throw new ModelError(`${op} is computed on the host and cannot be part of an ONNX graph`, {
    code: "onnx.host_operator",
  });
}
