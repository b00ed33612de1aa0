// The fused operators of language models: each is one primitive with a gradient of its own.
// Dimension names: T queries, S keys, B batch, H query heads, K key heads, D head width, N tokens, V vocabulary.
// Sequence tensors are time-major ([T, B, …]): matrix products then read heads without moving data.

import { operatorError } from "../errors.js";
import { requireTensors } from "../ops/rule.js";
import { apply, applyAll } from "../ops/shape-rules.js";
import { formatShape } from "../shape.js";
import type { Tensor } from "../tensor.js";

/** (x − mean) / sqrt(var + eps) · weight + bias over the last axis. weight, bias: [C] for x [..., C]. */
export function layerNorm(x: Tensor, weight: Tensor, bias: Tensor, eps = 1e-5): Tensor {
  return apply("layerNorm", [x, weight, bias], { eps });
}

/** x / sqrt(mean(x²) + eps) · weight over the last axis. weight: [C] for x [..., C]. */
export function rmsNorm(x: Tensor, weight: Tensor, eps = 1e-5): Tensor {
  return apply("rmsNorm", [x, weight], { eps });
}

/**
 * Rotates half-split pairs (j, j + D/2) of the last axis by the angle whose cosine and sine stand in row t.
 * x: [T, B, H, D]; cos, sin: [T, D/2].
 */
export function rotaryEmbedding(x: Tensor, cos: Tensor, sin: Tensor): Tensor {
  return apply("rotaryEmbedding", [x, cos, sin], {});
}

export interface AttentionOptions {
  /** Default true: key j is visible to query t iff j ≤ t. */
  causal?: boolean;
  /** Default 1/sqrt(D). */
  scale?: number;
  /** bool [B, S]: false hides a key. A query that sees no key gives zeros. */
  keyMask?: Tensor;
  /** [B, H, T, S], multiplied with the probabilities (see dropoutMask). */
  dropoutMask?: Tensor;
  /** Runs of queries computed one after another; default: 2 for long causal sequences, else 1. */
  blocks?: number;
}

/** Softmax attention with grouped heads. q: [T, B, H, D]; k, v: [S, B, K, D] with K dividing H. Result: [T, B, H, D]. */
export function attention(q: Tensor, k: Tensor, v: Tensor, options: AttentionOptions = {}): Tensor {
  requireTensors("attention", [q, k, v]);
  const { causal = true, keyMask, dropoutMask } = options;
  const T = q.shape[0] ?? 0;
  const inputs = [q, k, v];
  if (keyMask) inputs.push(keyMask);
  if (dropoutMask) inputs.push(dropoutMask);
  return apply("attention", inputs, {
    scale: options.scale ?? 1 / Math.sqrt(q.shape[3] ?? 1),
    causal,
    blocks: options.blocks ?? (causal && T >= 64 && T % 2 === 0 ? 2 : 1),
    hasKeyMask: keyMask !== undefined,
    hasDropout: dropoutMask !== undefined,
  });
}

/** silu(gate) · up, elementwise. */
export function swiglu(gate: Tensor, up: Tensor): Tensor {
  return apply("swiglu", [gate, up], {});
}

export interface LinearCrossEntropyOptions {
  /** Labels with this value count for nothing. Default −100. */
  ignoreIndex?: number;
  /** Number of runs of tokens; the logits of one run at a time are held. Default: runs of about 256 tokens. */
  chunks?: number;
}

/**
 * Cross-entropy of `hidden · weightᵀ` against labels without ever holding all logits.
 * hidden: [N, D]; weight: [V, D]; labels: int32 [N]. Returns scalars: the summed loss in nats over the
 * labels that count, and how many they are. Every label that counts must lie in 0 … V−1: for another one the
 * reference backend throws ModelError; the onnx backend does the same where it computes the gradient by
 * `weight` of a label too large, and else gives NaN as the loss, so that it never passes for a number.
 */
export function linearCrossEntropy(
  hidden: Tensor,
  weight: Tensor,
  labels: Tensor,
  options: LinearCrossEntropyOptions = {},
): { lossSum: Tensor; count: Tensor } {
  requireTensors("linearCrossEntropy", [hidden, weight, labels]);
  const N = hidden.shape[0] ?? 0;
  const [lossSum, count] = applyAll("linearCrossEntropy", [hidden, weight, labels], {
    chunks: options.chunks ?? defaultChunks(N),
    ignoreIndex: options.ignoreIndex ?? -100,
  });
  return { lossSum: lossSum!, count: count! };
}

/** The divisor of N that makes runs closest to, and not below, 256 tokens; 1 for few tokens. */
function defaultChunks(tokens: number): number {
  for (let chunks = Math.max(1, Math.floor(tokens / 256)); chunks > 1; chunks--)
    if (tokens % chunks === 0) return chunks;
  return 1;
}

/**
 * Values 0 or 1/(1−rate), independent per element: a pure function of the generator state, `site` and position.
 * rng: int32 [2] = (seed, step). Multiply with it to apply dropout.
 */
export function dropoutMask(rng: Tensor, shape: readonly number[], rate: number, site: number): Tensor {
  if (!Number.isInteger(site) || site < 0)
    throw operatorError("dropoutMask", `site ${site} must be a count (shape ${formatShape(shape)})`);
  return apply("dropoutMask", [rng], { shape: [...shape], rate, site });
}
