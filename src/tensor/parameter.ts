// A Parameter is a leaf tensor with values that training changes. Two modules that hold the same object
// share it (tied weights).

import { allocate, type TensorData } from "./dtype.js";
import { type Shape, sizeOf } from "./shape.js";
import { Node, Tensor } from "./tensor.js";
import { registerLeaf } from "./trace/graph.js";

export class Parameter extends Tensor {
  /** Current values on the host. While a trainer runs they are refreshed on request, not every step. */
  data: Float32Array;
  /** False freezes it: no gradient, no update. */
  trainable: boolean;

  constructor(shape: Shape, options: { data?: Float32Array; trainable?: boolean } = {}) {
    super(new Node("leaf", [], {}, [{ shape: [...shape], dtype: "float32" }], { kind: "parameter" }), 0);
    this.data = options.data ?? allocate("float32", sizeOf(shape));
    this.trainable = options.trainable ?? true;
    registerLeaf(this);
  }

  toData(): TensorData {
    return { dtype: "float32", shape: this.shape, data: this.data };
  }
}
