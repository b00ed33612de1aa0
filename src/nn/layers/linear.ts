// y = x · Wᵀ + b.

import { add, matmul, type Parameter, type Tensor } from "../../tensor/index.js";
import { createParameter } from "../init/initialize.js";
import { type Initializer, uniform } from "../init/initializers.js";
import { AdaptableLayer } from "./adapter.js";
import { requireSize } from "./sizes.js";

export interface LinearOptions {
  /** Default true. */
  bias?: boolean;
  /** How the weight starts; by default, as the bias does, uniform within ±1/√inputs. */
  weightInit?: Initializer;
  biasInit?: Initializer;
}

export class Linear extends AdaptableLayer {
  /** [outputs, inputs] */
  weight: Parameter;
  /** [outputs] */
  bias: Parameter | null;

  constructor(inputs: number, outputs: number, options: LinearOptions = {}) {
    super();
    requireSize("Linear", "inputs", inputs);
    requireSize("Linear", "outputs", outputs);
    const bound = 1 / Math.sqrt(inputs);
    const byDefault = uniform({ low: -bound, high: bound });
    this.weight = createParameter([outputs, inputs], options.weightInit ?? byDefault);
    this.bias = options.bias === false ? null : createParameter([outputs], options.biasInit ?? byDefault);
  }

  /** x: [..., inputs]. Result: [..., outputs]. */
  forward(x: Tensor): Tensor {
    const product = matmul(x, this.weight, { transB: true });
    return this.adapted(this.bias ? add(product, this.bias) : product, x);
  }

  protected override get layout() {
    return "outputs, inputs" as const;
  }
}
