// The gated feed-forward layer (SwiGLU): down( silu(gate(x)) · up(x) ). Field names are state-dict names.

import { swiglu, type Tensor } from "../../tensor/index.js";
import { type Initializer, zeros } from "../init/initializers.js";
import { Module } from "../module.js";
import { Linear } from "./linear.js";

export interface GatedMlpOptions {
  /** Biases of all three layers, starting at 0. Default false. */
  bias?: boolean;
  weightInit?: Initializer;
  /** For the layer that writes to the residual stream; by default as `weightInit`. */
  outputInit?: Initializer;
}

export class GatedMlp extends Module {
  readonly gate_proj: Linear;
  readonly up_proj: Linear;
  readonly down_proj: Linear;

  constructor(width: number, innerWidth: number, options: GatedMlpOptions = {}) {
    super();
    const { bias = false, weightInit, outputInit = weightInit } = options;
    const linear = (inputs: number, outputs: number, init: Initializer | undefined) =>
      new Linear(inputs, outputs, { bias, biasInit: zeros(), ...(init && { weightInit: init }) });
    this.gate_proj = linear(width, innerWidth, weightInit);
    this.up_proj = linear(width, innerWidth, weightInit);
    this.down_proj = linear(innerWidth, width, outputInit);
  }

  /** x: [..., width] */
  forward(x: Tensor): Tensor {
    return this.down_proj.forward(swiglu(this.gate_proj.forward(x), this.up_proj.forward(x)));
  }
}
