// Low-rank adapters (LoRA, Hu et al. 2021): beside a frozen matrix W a product B · A of small rank is trained, and a
// layer gives W·x + scale · B·A·x. Layers that multiply by one matrix can take one; what is adapted, lora.ts decides.

import { add, matmul, mul, type Parameter, type Tensor } from "../../tensor/index.js";
import { createParameter } from "../init/initialize.js";
import { uniform, zeros } from "../init/initializers.js";
import { Module } from "../module.js";
import { Dropout } from "./dropout.js";
import { requireSize } from "./sizes.js";

export interface AdapterShape {
  readonly inputs: number;
  readonly outputs: number;
}

export interface AdapterOptions {
  readonly rank: number;
  /** The product is weighed by alpha / rank. */
  readonly alpha: number;
  /** Dropped share of the adapter's input in training. */
  readonly dropout: number;
}

/** Starts without effect: B is zero. */
export class LowRankAdapter extends Module {
  /** [rank, inputs] */
  readonly A: Parameter;
  /** [outputs, rank] */
  readonly B: Parameter;
  readonly scale: number;
  readonly #dropout: Dropout;

  constructor({ inputs, outputs }: AdapterShape, { rank, alpha, dropout }: AdapterOptions) {
    super();
    requireSize("LowRankAdapter", "rank", rank);
    const bound = 1 / Math.sqrt(inputs);
    this.A = createParameter([rank, inputs], uniform({ low: -bound, high: bound }));
    this.B = createParameter([outputs, rank], zeros());
    this.scale = alpha / rank;
    this.#dropout = new Dropout(dropout);
  }

  /** x: [..., inputs]. Result: [..., outputs]. */
  forward(x: Tensor): Tensor {
    const small = matmul(this.#dropout.forward(x), this.A, { transB: true });
    return mul(matmul(small, this.B, { transB: true }), this.scale);
  }
}

/** A layer that multiplies by one matrix. */
export abstract class AdaptableLayer extends Module {
  lora: LowRankAdapter | null = null;

  abstract readonly weight: Parameter;
  /** Which axis of the weight is which. */
  protected abstract get layout(): "outputs, inputs" | "inputs, outputs";

  get adapterShape(): AdapterShape {
    const [rows, columns] = this.weight.shape as [number, number];
    return this.layout === "outputs, inputs"
      ? { inputs: columns, outputs: rows }
      : { inputs: rows, outputs: columns };
  }

  /** `product` of the weight with `x`, with what the adapter adds. */
  protected adapted(product: Tensor, x: Tensor): Tensor {
    return this.lora ? add(product, this.lora.forward(x)) : product;
  }

  /** Adds the adapter's product to the weight, summed in float64, and takes the adapter away. */
  mergeAdapter(): void {
    const { lora, weight } = this;
    if (!lora) return;
    const { inputs, outputs } = this.adapterShape;
    const [a, b] = [lora.A.data, lora.B.data];
    const rank = lora.A.shape[0]!;
    const [rowStride, columnStride] = this.layout === "outputs, inputs" ? [inputs, 1] : [1, outputs];
    const merged = weight.data;
    for (let o = 0; o < outputs; o++)
      for (let i = 0; i < inputs; i++) {
        let sum = 0;
        for (let r = 0; r < rank; r++) sum += b[o * rank + r]! * a[r * inputs + i]!;
        const at = o * rowStride + i * columnStride;
        merged[at] = merged[at]! + lora.scale * sum;
      }
    this.lora = null;
  }
}
