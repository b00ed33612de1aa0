// Normalisation over the last axis.

import { layerNorm, type Parameter, rmsNorm, type Tensor } from "../../tensor/index.js";
import { createParameter } from "../init/initialize.js";
import { ones, zeros } from "../init/initializers.js";
import { Module } from "../module.js";
import { requireSize } from "./sizes.js";

export interface NormOptions {
  /** Added inside the root. Default 1e-5. */
  eps?: number;
}

/** (x − mean) / √(variance + eps) · weight + bias. */
export class LayerNorm extends Module {
  weight: Parameter;
  bias: Parameter;
  readonly eps: number;

  constructor(width: number, options: NormOptions = {}) {
    super();
    requireSize("LayerNorm", "width", width);
    this.weight = createParameter([width], ones());
    this.bias = createParameter([width], zeros());
    this.eps = options.eps ?? 1e-5;
  }

  /** x: [..., width] */
  forward(x: Tensor): Tensor {
    return layerNorm(x, this.weight, this.bias, this.eps);
  }
}

/** x / √(mean of x² + eps) · weight. */
export class RMSNorm extends Module {
  weight: Parameter;
  readonly eps: number;

  constructor(width: number, options: NormOptions = {}) {
    super();
    requireSize("RMSNorm", "width", width);
    this.weight = createParameter([width], ones());
    this.eps = options.eps ?? 1e-5;
  }

  /** x: [..., width] */
  forward(x: Tensor): Tensor {
    return rmsNorm(x, this.weight, this.eps);
  }
}
