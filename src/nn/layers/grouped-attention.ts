// What every causal self-attention with grouped key heads does between its projections, over a whole sequence or
// over a cache. How queries, keys and values are projected, and under which names, is the subclass's business.
// Dimension names: T positions given, S positions cached, B batch, H query heads, K key heads, W head width,
// D model width.

import { attention, reshape, rotaryEmbedding, type Tensor, where } from "../../tensor/index.js";
import { ModelError } from "../../util/errors.js";
import type { KeyValue } from "../contract.js";
import { Module } from "../module.js";
import { drawDropoutMask } from "./dropout.js";
import type { RotaryRows } from "./rotary.js";
import { requireRate, requireSize } from "./sizes.js";
import { rotateEach, visibleAttention } from "./visible-attention.js";

export interface AttentionContext {
  /** Rotates queries and keys: the rows of the given positions. */
  rotary?: RotaryRows;
  /** bool [B, T]: false hides a key. A query that sees none gives zeros. */
  keyMask?: Tensor;
  /** bool [B, T, T]: which keys each query sees; takes the place of causality and `keyMask`. */
  visible?: Tensor;
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

export interface AttentionResult {
  /** [T, B, D] */
  readonly output: Tensor;
  /** Of the given positions, [T, B, K, W]. */
  readonly keyValue: KeyValue;
}

export interface HeadLayout {
  heads: number;
  /** A divisor of `heads`. Query head h reads key head floor(h · keyHeads / heads). */
  keyHeads: number;
  headWidth: number;
  /** Dropped share of the probabilities in training. */
  dropout: number;
}

export abstract class GroupedAttention extends Module {
  readonly heads: number;
  readonly keyHeads: number;
  readonly headWidth: number;
  readonly dropout: number;

  /** `owner` stands in messages. */
  constructor(owner: string, { heads, keyHeads, headWidth, dropout }: HeadLayout) {
    super();
    for (const [what, value] of Object.entries({ heads, keyHeads, headWidth }))
      requireSize(owner, what, value);
    requireRate(owner, dropout);
    if (heads % keyHeads !== 0)
      throw new ModelError(`${keyHeads} key heads do not divide ${heads} heads`, {
        code: "model.key_heads",
        details: { heads, keyHeads },
      });
    this.heads = heads;
    this.keyHeads = keyHeads;
    this.headWidth = headWidth;
    this.dropout = dropout;
  }

  /** x: [T, B, D]. Results: [T, B, H·W] and [T, B, K·W] twice. */
  protected abstract project(x_TBD: Tensor): KeyValue & { query: Tensor };

  /** The heads' results [T, B, H·W] as the layer's output [T, B, D]. */
  protected abstract merge(mixed: Tensor): Tensor;

  /** x: [T, B, D]. Result: [T, B, D]. */
  forward(x_TBD: Tensor, context: AttentionContext = {}): Tensor {
    return this.forwardWithKeys(x_TBD, context).output;
  }

  /** As `forward`, with the keys and values that a cache keeps. */
  forwardWithKeys(x_TBD: Tensor, context: AttentionContext = {}): AttentionResult {
    const { query, key, value } = this.#projectHeads(x_TBD, context.rotary);
    const [T, B] = x_TBD.shape as [number, number, number];
    const dropoutMask = drawDropoutMask([B, this.heads, T, T], this.dropout);
    const mixed = context.visible
      ? visibleAttention(query, key, value, context.visible, dropoutMask)
      : attention(query, key, value, {
          ...(context.keyMask && { keyMask: context.keyMask }),
          ...(dropoutMask && { dropoutMask }),
        });
    return { output: this.#mergeHeads(mixed), keyValue: { key, value } };
  }

  /** One new position, x: [1, B, D], over a cache. Gives its keys and values [1, B, K, W]; writes nothing. */
  forwardCached(x_1BD: Tensor, context: CacheContext): AttentionResult {
    const { query, key, value } = this.#projectHeads(x_1BD, context.rotary);
    const mixed = attention(
      query,
      where(context.isNew, key, context.cache.key),
      where(context.isNew, value, context.cache.value),
      { causal: false, keyMask: context.isVisible },
    );
    return { output: this.#mergeHeads(mixed), keyValue: { key, value } };
  }

  #projectHeads(x: Tensor, rotary: RotaryRows | undefined): KeyValue & { query: Tensor } {
    const { query, key, value } = this.project(x);
    const inHeads = (t: Tensor, count: number) => reshape(t, [...x.shape.slice(0, 2), count, this.headWidth]);
    const rotate = (t: Tensor) => {
      if (!rotary) return t;
      // Rows of a position each, or of a place in the sequence for all of the batch.
      return (rotary.cos.rank === 2 ? rotaryEmbedding : rotateEach)(t, rotary.cos, rotary.sin);
    };
    return {
      query: rotate(inHeads(query, this.heads)),
      key: rotate(inHeads(key, this.keyHeads)),
      value: inHeads(value, this.keyHeads),
    };
  }

  #mergeHeads(mixed_TBHW: Tensor): Tensor {
    const [T, B] = mixed_TBHW.shape as [number, number];
    return this.merge(reshape(mixed_TBHW, [T, B, this.heads * this.headWidth]));
  }
}
