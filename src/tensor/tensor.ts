// A Tensor is a symbolic value: one output of a node in a graph that is recorded while model code runs.
// It holds no numbers (except at leaves); a backend computes them. Nodes are immutable and only point
// backwards, so what is never used for a result costs nothing.

import { InternalError } from "../util/errors.js";
import { type DType, isStorageOf, type TensorData } from "./dtype.js";
import { operatorError, requireExtents } from "./errors.js";
import type { OpName, OpParams } from "./ops/params.js";
import { formatShape, type Shape, sizeOf } from "./shape.js";

export interface ValueType {
  readonly shape: Shape;
  readonly dtype: DType;
}

/** Where a value without producer comes from. */
export type Leaf =
  | { readonly kind: "input"; readonly name: string }
  | { readonly kind: "constant"; readonly data: TensorData }
  | { readonly kind: "parameter" };

let nextId = 0;

export class Node {
  /** Grows with creation: a node's inputs always have smaller ids, so ids are a topological order. */
  readonly id = nextId++;

  constructor(
    readonly op: OpName | "leaf",
    readonly inputs: readonly Tensor[],
    readonly params: OpParams[OpName],
    readonly outputs: readonly ValueType[],
    readonly leaf?: Leaf,
  ) {}
}

export class Tensor {
  readonly shape: Shape;
  readonly dtype: DType;

  constructor(
    readonly node: Node,
    readonly index: number,
  ) {
    const type = node.outputs[index];
    if (!type) throw new InternalError(`node ${node.op} has no output ${index}`, { code: "internal.output" });
    this.shape = type.shape;
    this.dtype = type.dtype;
  }

  get rank(): number {
    return this.shape.length;
  }

  toString(): string {
    return `Tensor(${this.dtype}[${this.shape.join(", ")}] from ${this.node.op})`;
  }
}

/** A named placeholder that is fed when the graph runs. Throws OperatorError for a shape that is none. */
export function input(name: string, shape: Shape, dtype: DType): Tensor {
  requireExtents("input", shape);
  return new Tensor(new Node("leaf", [], {}, [{ shape: [...shape], dtype }], { kind: "input", name }), 0);
}

/** Values that are known now and become part of the graph. Throws OperatorError when array and type do not fit. */
export function constant(data: TensorData): Tensor {
  requireExtents("constant", data.shape);
  if (!isStorageOf(data.dtype, data.data))
    throw operatorError("constant", `a ${data.data?.constructor.name} cannot hold ${data.dtype} values`);
  if (data.data.length !== sizeOf(data.shape))
    throw operatorError(
      "constant",
      `shape ${formatShape(data.shape)} holds ${sizeOf(data.shape)} values, the array ${data.data.length}`,
    );
  const type = { shape: [...data.shape], dtype: data.dtype };
  return new Tensor(new Node("leaf", [], {}, [type], { kind: "constant", data }), 0);
}
