// What a lowering is: from a node of our graph to ONNX nodes.

import type { DType } from "../../dtype.js";
import type { OpName, OpParams } from "../../ops/params.js";
import type { OnnxBuilder, OnnxName } from "./builder.js";

export interface LoweredValue {
  readonly name: OnnxName;
  readonly shape: readonly number[];
  readonly dtype: DType;
}

export interface LoweringContext<K extends OpName> {
  readonly b: OnnxBuilder;
  readonly params: OpParams[K];
  readonly inputs: readonly LoweredValue[];
  readonly outputs: readonly {
    readonly shape: readonly number[];
    readonly dtype: DType;
    readonly used: boolean;
  }[];
}

/** Names of the outputs, in order; an output that is not used may be left undefined. */
export type Lowering<K extends OpName> = (context: LoweringContext<K>) => (OnnxName | undefined)[];

/** `name` under another shape. Zero extents are literal. */
export function reshapeTo(b: OnnxBuilder, name: OnnxName, shape: readonly number[]): OnnxName {
  return b.emit("Reshape", [name, b.ints(shape)], shape.includes(0) ? { allowzero: 1 } : {});
}
