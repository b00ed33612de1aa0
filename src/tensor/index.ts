// Public surface of the tensor engine: `speedtronic/tensor`.

export { grad, valueAndGrad } from "./autodiff/grad.js";
export type { Backend, Executable, Feeds } from "./backends/backend.js";
export { evaluate, evaluateGraph, referenceBackend } from "./backends/reference/interpreter.js";
export { allocate, type DType, dtypes, isFloating, type TensorData, type TypedArray } from "./dtype.js";
export { OperatorError } from "./errors.js";
export * from "./functions/convolution.js";
export * from "./functions/elementwise.js";
export * from "./functions/fused.js";
export * from "./functions/indexing.js";
export {
  argmax,
  cumsum,
  logSoftmax,
  logsumexp,
  matmul,
  max,
  mean,
  min,
  type ReduceOptions,
  softmax,
  sum,
} from "./functions/linalg.js";
export * from "./functions/shape.js";
export { Parameter } from "./parameter.js";
export { optimize } from "./passes/optimize.js";
export type { Shape } from "./shape.js";
export { constant, input, Tensor } from "./tensor.js";
export {
  isTraining,
  type LiveValues,
  liveValue,
  nextRandomSite,
  replaceLive,
  withTrace,
} from "./trace/context.js";
export { type Graph, type GraphNode, toGraph } from "./trace/graph.js";
export { type TraceOptions, trace } from "./trace/trace.js";
