// Causal self-attention with grouped key heads, time-major, as the reference model has it. Field names are
// state-dict names.

import type { Tensor } from "../../tensor/index.js";
import { ModelError } from "../../util/errors.js";
import type { KeyValue } from "../contract.js";
import type { Initializer } from "../init/initializers.js";
import { GroupedAttention } from "./grouped-attention.js";
import { Linear } from "./linear.js";
import { requireSize } from "./sizes.js";

export interface CausalSelfAttentionOptions {
  /** Model width D, a multiple of `heads`. */
  width: number;
  heads: number;
  /** A divisor of `heads`; default `heads`. Query head h reads key head floor(h · keyHeads / heads). */
  keyHeads?: number;
  /** Dropped share of the probabilities in training. Default 0. */
  dropout?: number;
  /** Biases of all four projections. Default false. */
  bias?: boolean;
  weightInit?: Initializer;
  /** For the projection that writes to the residual stream; by default as `weightInit`. */
  outputInit?: Initializer;
}

export class CausalSelfAttention extends GroupedAttention {
  readonly q_proj: Linear;
  readonly k_proj: Linear;
  readonly v_proj: Linear;
  readonly out_proj: Linear;

  constructor(options: CausalSelfAttentionOptions) {
    const {
      width,
      heads,
      keyHeads = heads,
      dropout = 0,
      bias = false,
      weightInit,
      outputInit = weightInit,
    } = options;
    for (const [what, value] of Object.entries({ width, heads, keyHeads }))
      requireSize("CausalSelfAttention", what, value);
    super("CausalSelfAttention", { heads, keyHeads, headWidth: wholeHeadWidth(width, heads), dropout });
    const linear = (outputs: number, init: Initializer | undefined) =>
      new Linear(width, outputs, { bias, ...(init && { weightInit: init }) });
    this.q_proj = linear(width, weightInit);
    this.k_proj = linear(keyHeads * this.headWidth, weightInit);
    this.v_proj = linear(keyHeads * this.headWidth, weightInit);
    this.out_proj = linear(width, outputInit);
  }

  protected override project(x: Tensor): KeyValue & { query: Tensor } {
    return { query: this.q_proj.forward(x), key: this.k_proj.forward(x), value: this.v_proj.forward(x) };
  }

  protected override merge(mixed: Tensor): Tensor {
    return this.out_proj.forward(mixed);
  }
}

/** The share of each head in the model's width. Throws ModelError unless it is whole. */
export function wholeHeadWidth(width: number, heads: number): number {
  if (width % heads === 0) return width / heads;
  throw new ModelError(`${heads} heads do not divide the width ${width}`, {
    code: "model.heads",
    details: { width, heads },
  });
}
