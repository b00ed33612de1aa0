// ONNX lowerings of the other fused operators.

import type { OpName } from "../../../ops/params.js";
import { sizeOf } from "../../../shape.js";
import type { OnnxName } from "../builder.js";
import { type LoweredValue, type Lowering, reshapeTo } from "../lowering.js";
import { elementTypes } from "../schema.js";
import { lowerAttention, lowerAttentionGrad } from "./attention.js";
import { refuseHostOperator } from "./linalg.js";

/**
 * Cross-entropy by runs of tokens. For training, softmax goes straight into both gradient products, so the
 * logits are read once; the label's part of the gradient is a row of the weight, taken away afterwards.
 * A label that counts but lies outside 0 … V−1 makes the loss NaN: nothing on the device could throw.
 * Σ exp(l − max) equals 1 / max(p), which gives the loss without a pass of exponentials of its own.
 */
const linearCrossEntropy: Lowering<"linearCrossEntropy"> = ({ b, params, inputs, outputs }) => {
  const [hidden, weight, labels] = inputs as [LoweredValue, LoweredValue, LoweredValue];
  const N = hidden.shape[0]!;
  const V = weight.shape[0]!;
  const n = N / params.chunks;
  const wantsGradient = outputs[2]!.used || outputs[3]!.used;

  const int = (value: number) => b.constant({ dtype: "int32", shape: [], data: Int32Array.of(value) });
  const zero = int(0);
  const isCounted = b.emit("Not", [b.emit("Equal", [labels.name, int(params.ignoreIndex)])]);
  const counted = b.emit("Cast", [isCounted], { to: elementTypes.float32 });
  const isClass = b.emit("And", [
    b.emit("GreaterOrEqual", [labels.name, zero]),
    b.emit("Less", [labels.name, int(V)]),
  ]);
  const targets = b.emit("Where", [isClass, labels.name, zero]);
  const isWrong = b.emit("And", [isCounted, b.emit("Not", [isClass])]);
  const column = reshapeTo(b, b.emit("Where", [isWrong, b.float(Number.NaN), counted]), [N, 1]);
  const countedHidden = outputs[3]!.used ? b.emit("Mul", [hidden.name, column]) : hidden.name;

  const cut = (x: OnnxName): OnnxName[] =>
    params.chunks === 1
      ? [x]
      : b.emitAll("Split", [x, b.ints(new Array(params.chunks).fill(n))], {
          attributes: { axis: 0 },
          outputs: params.chunks,
        });
  const join = (parts: OnnxName[]) => (parts.length === 1 ? parts[0]! : b.emit("Concat", parts, { axis: 0 }));
  const hiddenRuns = cut(hidden.name);
  const targetRuns = cut(targets);
  const countedRuns = outputs[3]!.used ? cut(countedHidden) : [];

  const losses: OnnxName[] = [];
  const hiddenGrads: OnnxName[] = [];
  let weightGrad: OnnxName | undefined;
  for (let c = 0; c < params.chunks; c++) {
    const logits = b.emitMicrosoft("FusedMatMul", [hiddenRuns[c]!, weight.name], { transB: 1 });
    const picks = reshapeTo(b, targetRuns[c]!, [n, 1]);
    const picked = (x: OnnxName) => b.emit("GatherElements", [x, picks], { axis: 1 });
    if (!wantsGradient) {
      losses.push(b.emit("Neg", [picked(b.emit("LogSoftmax", [logits], { axis: -1 }))]));
      continue;
    }
    const p = b.emit("Softmax", [logits], { axis: -1 });
    const rowMax = (x: OnnxName) => b.emit("ReduceMax", [x, b.ints([1])], { keepdims: 1 });
    const shifted = b.emit("Sub", [rowMax(logits), picked(logits)]);
    losses.push(b.emit("Sub", [shifted, b.emit("Log", [rowMax(p)])]));
    if (outputs[2]!.used) hiddenGrads.push(b.emit("MatMul", [p, weight.name]));
    if (outputs[3]!.used) {
      weightGrad = weightGrad
        ? b.emit("Gemm", [p, countedRuns[c]!, weightGrad], { transA: 1 })
        : b.emitMicrosoft("FusedMatMul", [p, countedRuns[c]!], { transA: 1 });
    }
  }
  const total = (x: OnnxName, axes: number[]) => b.emit("ReduceSum", [x, b.ints(axes)], { keepdims: 0 });
  const lossSum = total(b.emit("Mul", [join(losses), column]), [0, 1]);
  const hiddenGrad = outputs[2]!.used
    ? b.emit("Mul", [
        b.emit("Sub", [join(hiddenGrads), b.emit("Gather", [weight.name, targets], { axis: 0 })]),
        column,
      ])
    : undefined;
  return [lossSum, total(counted, [0]), hiddenGrad, weightGrad];
};

const rotaryEmbedding: Lowering<"rotaryEmbedding"> = ({ b, inputs }) => {
  const [x, cos, sin] = inputs as [LoweredValue, LoweredValue, LoweredValue];
  const [T, B, H, D] = x.shape as [number, number, number, number];
  if (sizeOf(x.shape) === 0) return [x.name];
  // Seen as T·B sequences of one position each: their length may then never exceed that of the tables.
  const positions = b.int64(
    Array.from({ length: T * B }, (_, i) => Math.floor(i / B)),
    [T * B, 1],
  );
  const merged = reshapeTo(b, x.name, [T * B, 1, H * D]);
  const rotated = b.emitMicrosoft("RotaryEmbedding", [merged, positions, cos.name, sin.name], {
    num_heads: H,
  });
  return [reshapeTo(b, rotated, x.shape)];
};

export const fusedLowerings = {
  layerNorm: ({ b, params, inputs }) =>
    b.emitAll(
      "LayerNormalization",
      inputs.map((t) => t.name),
      {
        attributes: { axis: -1, epsilon: { float: params.eps } },
        outputs: 3,
      },
    ),
  rmsNorm: ({ b, params, inputs }) =>
    b.emitAll(
      "SimplifiedLayerNormalization",
      inputs.map((t) => t.name),
      {
        attributes: { axis: -1, epsilon: { float: params.eps } },
        outputs: 2,
      },
    ),
  dropoutMask: () => refuseHostOperator("dropoutMask"),
  rotaryEmbedding,
  attention: lowerAttention,
  attentionGrad: lowerAttentionGrad,
  swiglu: ({ b, inputs }) => {
    const [gate, up] = inputs as [LoweredValue, LoweredValue];
    const sigma = b.emit("Sigmoid", [gate.name]);
    const activated = b.emit("Mul", [gate.name, sigma]);
    return [b.emit("Mul", [activated, up.name]), activated, sigma];
  },
  linearCrossEntropy,
} satisfies Partial<{ [K in OpName]: Lowering<K> }>;
