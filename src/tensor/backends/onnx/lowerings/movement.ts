// ONNX lowerings of the operators that move elements, and of indexing.

import { allocate } from "../../../dtype.js";
import type { OpName } from "../../../ops/params.js";
import { sizeOf } from "../../../shape.js";
import { elementTypeOf } from "../builder.js";
import { type LoweredValue, type Lowering, type LoweringContext, reshapeTo } from "../lowering.js";
import { elementTypes } from "../schema.js";

/** Trilu has no int32 kernel: go through float32, which holds indices up to 2^24 exactly, or int64. */
const triangle =
  <K extends "tril" | "triu">(upper: 0 | 1): Lowering<K> =>
  ({ b, params, inputs }: LoweringContext<K>) => {
    const [x] = inputs as [LoweredValue];
    const k = b.int64([(params as { diagonal: number }).diagonal], []);
    if (x.dtype !== "int32") return [b.emit("Trilu", [x.name, k], { upper })];
    const wide = b.emit("Cast", [x.name], { to: elementTypes.int64 });
    return [b.emit("Cast", [b.emit("Trilu", [wide, k], { upper })], { to: elementTypes.int32 })];
  };

export const movementLowerings = {
  reshape: ({ b, params, inputs }) => [reshapeTo(b, inputs[0]!.name, params.shape)],
  transpose: ({ b, params, inputs }) => [b.emit("Transpose", [inputs[0]!.name], { perm: params.perm })],
  expand: ({ b, params, inputs }) => [b.emit("Expand", [inputs[0]!.name, b.ints(params.shape)])],
  concat: ({ b, params, inputs }) => [
    b.emit(
      "Concat",
      inputs.map((t) => t.name),
      { axis: params.axis },
    ),
  ],
  split: ({ b, params, inputs, outputs }) =>
    b.emitAll("Split", [inputs[0]!.name, b.ints(params.sizes)], {
      attributes: { axis: params.axis },
      outputs: outputs.length,
    }),
  slice: ({ b, params, inputs }) => {
    const [x] = inputs as [LoweredValue];
    const axes = x.shape.flatMap((n, axis) =>
      params.starts[axis] === 0 && params.ends[axis] === n ? [] : [axis],
    );
    if (axes.length === 0) return [x.name];
    const starts = b.ints(axes.map((axis) => params.starts[axis]!));
    const ends = b.ints(axes.map((axis) => params.ends[axis]!));
    return [b.emit("Slice", [x.name, starts, ends, b.ints(axes)])];
  },
  pad: ({ b, params, inputs }) => {
    const [x] = inputs as [LoweredValue];
    if (x.shape.length === 0) return [x.name];
    const value = allocate(x.dtype, 1);
    value[0] = params.value;
    const fill = b.constant({ dtype: x.dtype, shape: [], data: value });
    return [b.emit("Pad", [x.name, b.ints([...params.low, ...params.high]), fill])];
  },
  tril: triangle(0),
  triu: triangle(1),
  iota: ({ b, params }) => {
    const data = allocate(params.dtype, params.size);
    for (let i = 0; i < params.size; i++) data[i] = i;
    return [b.constant({ dtype: params.dtype, shape: [params.size], data })];
  },
  oneHot: ({ b, params, inputs, outputs }) => {
    const [indices] = inputs as [LoweredValue];
    const positions = b.constant({
      dtype: "int32",
      shape: [params.depth],
      data: Int32Array.from({ length: params.depth }, (_, i) => i),
    });
    const column = reshapeTo(b, indices.name, [...indices.shape, 1]);
    const hit = b.emit("Equal", [column, positions]);
    if (params.dtype === "bool") return [hit];
    return [b.emit("Cast", [hit], { to: elementTypeOf(outputs[0]!.dtype) })];
  },
  gather: ({ b, params, inputs }) => [
    b.emit(
      "Gather",
      inputs.map((t) => t.name),
      { axis: params.axis },
    ),
  ],
  takeAlong: ({ b, params, inputs }) => [
    b.emit(
      "GatherElements",
      inputs.map((t) => t.name),
      { axis: params.axis },
    ),
  ],
  // ScatterND(add) races on CPU with repeated indices; ScatterElements adds in order.
  scatterAdd: ({ b, params, inputs }) => {
    const [base, indices, updates] = inputs as [LoweredValue, LoweredValue, LoweredValue];
    const { axis } = params;
    const count = sizeOf(indices.shape);
    const shape = base.shape.map((n, i) => (i === axis ? count : n));
    if (sizeOf(shape) === 0) return [base.name];
    const column = reshapeTo(
      b,
      indices.name,
      base.shape.map((_, i) => (i === axis ? count : 1)),
    );
    const everywhere = b.emit("Expand", [column, b.ints(shape)]);
    const rows = reshapeTo(b, updates.name, shape);
    return [b.emit("ScatterElements", [base.name, everywhere, rows], { axis, reduction: "add" })];
  },
  scatterAddAlong: ({ b, params, inputs }) => {
    if (sizeOf(inputs[1]!.shape) === 0) return [inputs[0]!.name];
    return [
      b.emit(
        "ScatterElements",
        inputs.map((t) => t.name),
        { axis: params.axis, reduction: "add" },
      ),
    ];
  },
} satisfies Partial<{ [K in OpName]: Lowering<K> }>;
