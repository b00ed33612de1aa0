// Causal self-attention with grouped key heads, time-major. Field names are state-dict names.
// Dimension names: T positions given, S positions cached, B batch, H query heads, K key heads, W head width,
// D = H·W model width.

import { attention, reshape, rotaryEmbedding, type Tensor, where } from "../../tensor/index.js";
import { ModelError } from "../../util/errors.js";
import type { KeyValue } from "../contract.js";
import type { Initializer } from "../init/initializers.js";
import { Module } from "../module.js";
import { drawDropoutMask } from "./dropout.js";
import { Linear } from "./linear.js";
import type { RotaryRows } from "./rotary.js";
import { requireRate, requireSize } from "./sizes.js";

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

export interface AttentionContext {
  /** Rotates queries and keys: the rows of the given positions. */
  rotary?: RotaryRows;
  /** bool [B, T]: false hides a key. A query that sees none gives zeros. */
  keyMask?: Tensor;
}

/** Where a cached step writes, and what it may read. */
export interface CacheContext {
  /** Keys and values of all positions, [S, B, K, W]. */
  cache: KeyValue;
  /** bool [S, 1, 1, 1]: true at the position that is new. */
  isNew: Tensor;
  /** bool [B, S]: true at the new position and those before. */
  isVisible: Tensor;
  rotary?: RotaryRows;
}

export class CausalSelfAttention extends Module {
  readonly q_proj: Linear;
  readonly k_proj: Linear;
  readonly v_proj: Linear;
  readonly out_proj: Linear;
  readonly heads: number;
  readonly keyHeads: number;
  readonly headWidth: number;
  readonly dropout: number;

  constructor(options: CausalSelfAttentionOptions) {
    super();
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
    requireRate("CausalSelfAttention", dropout);
    if (width % heads !== 0)
      throw new ModelError(`${heads} heads do not divide the width ${width}`, {
        code: "model.heads",
        details: { width, heads },
      });
    if (heads % keyHeads !== 0)
      throw new ModelError(`${keyHeads} key heads do not divide ${heads} heads`, {
        code: "model.key_heads",
        details: { heads, keyHeads },
      });
    this.heads = heads;
    this.keyHeads = keyHeads;
    this.headWidth = width / heads;
    this.dropout = dropout;
    const linear = (outputs: number, init: Initializer | undefined) =>
      new Linear(width, outputs, { bias, ...(init && { weightInit: init }) });
    this.q_proj = linear(width, weightInit);
    this.k_proj = linear(keyHeads * this.headWidth, weightInit);
    this.v_proj = linear(keyHeads * this.headWidth, weightInit);
    this.out_proj = linear(width, outputInit);
  }

  /** x: [T, B, D]. Result: [T, B, D]. */
  forward(x_TBD: Tensor, context: AttentionContext = {}): Tensor {
    return this.forwardWithKeys(x_TBD, context).output;
  }

  /** As `forward`, with the keys and values [T, B, K, W] that a cache keeps. */
  forwardWithKeys(x_TBD: Tensor, context: AttentionContext = {}): { output: Tensor; keyValue: KeyValue } {
    const { query, key, value } = this.#project(x_TBD, context.rotary);
    const [T, B] = x_TBD.shape as [number, number, number];
    const dropoutMask = drawDropoutMask([B, this.heads, T, T], this.dropout);
    const mixed = attention(query, key, value, {
      ...(context.keyMask && { keyMask: context.keyMask }),
      ...(dropoutMask && { dropoutMask }),
    });
    return { output: this.#merge(mixed), keyValue: { key, value } };
  }

  /** One new position, x: [1, B, D], over a cache. Gives its keys and values [1, B, K, W]; writes nothing. */
  forwardCached(x_1BD: Tensor, context: CacheContext): { output: Tensor; keyValue: KeyValue } {
    const { query, key, value } = this.#project(x_1BD, context.rotary);
    const mixed = attention(
      query,
      where(context.isNew, key, context.cache.key),
      where(context.isNew, value, context.cache.value),
      { causal: false, keyMask: context.isVisible },
    );
    return { output: this.#merge(mixed), keyValue: { key, value } };
  }

  #project(x: Tensor, rotary: RotaryRows | undefined): KeyValue & { query: Tensor } {
    const heads = (projection: Linear, count: number) =>
      reshape(projection.forward(x), [...x.shape.slice(0, 2), count, this.headWidth]);
    const rotate = (t: Tensor) => (rotary ? rotaryEmbedding(t, rotary.cos, rotary.sin) : t);
    return {
      query: rotate(heads(this.q_proj, this.heads)),
      key: rotate(heads(this.k_proj, this.keyHeads)),
      value: heads(this.v_proj, this.keyHeads),
    };
  }

  #merge(mixed_TBHW: Tensor): Tensor {
    const [T, B] = mixed_TBHW.shape as [number, number];
    return this.out_proj.forward(reshape(mixed_TBHW, [T, B, this.heads * this.headWidth]));
  }
}
