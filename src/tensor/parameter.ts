// A Parameter is a leaf tensor with values that training changes. Two modules that hold the same object
// share it (tied weights).

import { ModelError } from "../util/errors.js";
import { allocate, type TensorData } from "./dtype.js";
import { formatShape, isShape, type Shape, sizeOf } from "./shape.js";
import { Node, Tensor } from "./tensor.js";
import { registerLeaf } from "./trace/graph.js";

export class Parameter extends Tensor {
  #data: Float32Array | undefined;
  /** False freezes it: no gradient, no update. */
  trainable: boolean;

  /** Throws ModelError for a shape that is none, or `data` of another length than it holds. */
  constructor(shape: Shape, options: { data?: Float32Array; trainable?: boolean } = {}) {
    super(new Node("leaf", [], {}, [{ shape: [...shape], dtype: "float32" }], { kind: "parameter" }), 0);
    if (!isShape(shape))
      throw new ModelError(
        `a parameter's shape must consist of integers not below 0, got ${formatShape(shape)}`,
        { code: "parameter.shape", details: { shape } },
      );
    this.#data = this.#checked(options.data ?? allocate("float32", sizeOf(shape)));
    this.trainable = options.trainable ?? true;
    registerLeaf(this);
  }

  /** Values on the host. Throws ModelError while they are elsewhere, see {@link takeData}. */
  get data(): Float32Array {
    if (!this.#data)
      throw new ModelError(
        "the values of this parameter are held by a training engine: ask it for them (refreshModel of the runtime) first",
        { code: "parameter.elsewhere" },
      );
    return this.#data;
  }

  set data(values: Float32Array) {
    this.#data = this.#checked(values);
  }

  /** Whether the host has values. */
  get hasData(): boolean {
    return this.#data !== undefined;
  }

  /** Hands the values over, to an engine that keeps them from now on; the host holds none until `data` is set. */
  takeData(): TensorData {
    const data = this.toData();
    this.#data = undefined;
    return data;
  }

  #checked(values: Float32Array): Float32Array {
    const size = sizeOf(this.shape);
    if (values instanceof Float32Array && values.length === size) return values;
    throw new ModelError(
      `a parameter of shape ${formatShape(this.shape)} takes a Float32Array of ${size} values, got ${values?.constructor.name} of length ${values?.length}`,
      { code: "parameter.data", details: { shape: this.shape, size, length: values?.length } },
    );
  }

  toData(): TensorData {
    return { dtype: "float32", shape: this.shape, data: this.data };
  }
}
