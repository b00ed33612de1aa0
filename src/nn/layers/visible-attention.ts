// Attention in which each query has keys of its own to see, as where several documents share a row: composed from
// products and a softmax, since the fused operator knows masks over keys only. And rotations by positions of one's own.
// Dimension names: T queries, S keys, B batch, H query heads, K key heads, G = H / K, W head width.

import {
  add,
  cast,
  concat,
  equal,
  greaterEqual,
  iota,
  logicalAnd,
  matmul,
  mul,
  reshape,
  slice,
  softmax,
  sub,
  type Tensor,
  transpose,
  where,
} from "../../tensor/index.js";

/** Far below every score, and finite: a row that sees nothing must not become NaN. */
const hidden = -1e30;

/**
 * Softmax attention with grouped heads. q: [T, B, H, W]; k, v: [S, B, K, W]; visible: bool [B, T, S], which says all.
 * A query that sees no key gives zeros. Result: [T, B, H, W].
 */
export function visibleAttention(
  q: Tensor,
  k: Tensor,
  v: Tensor,
  visible: Tensor,
  dropoutMask?: Tensor,
): Tensor {
  const [T, B, H, W] = q.shape as [number, number, number, number];
  const [S, , K] = k.shape as [number, number, number, number];
  const G = H / K;
  const queries = reshape(transpose(q, [1, 2, 0, 3]), [B, K, G, T, W]);
  const byHead = (t: Tensor) => reshape(transpose(t, [1, 2, 0, 3]), [B, K, 1, S, W]);
  const seen = reshape(visible, [B, 1, 1, T, S]);
  const scores = mul(matmul(queries, byHead(k), { transB: true }), 1 / Math.sqrt(W));
  const weights = mul(softmax(where(seen, scores, hidden)), cast(seen, scores.dtype));
  const kept = dropoutMask ? mul(weights, reshape(dropoutMask, [B, K, G, T, S])) : weights;
  return transpose(reshape(matmul(kept, byHead(v)), [B, H, T, W]), [2, 0, 1, 3]);
}

/**
 * What a position of a packed row may see: those before it, and itself, of the same document.
 * documents: int32 [B, T], equal where positions belong together; keyMask: bool [B, T]. Result: bool [B, T, T].
 */
export function sameDocument(documents: Tensor, keyMask: Tensor | undefined): Tensor {
  const [B, T] = documents.shape as [number, number];
  const own = equal(reshape(documents, [B, T, 1]), reshape(documents, [B, 1, T]));
  const isBefore = reshape(greaterEqual(reshape(iota(T), [T, 1]), reshape(iota(T), [1, T])), [1, T, T]);
  const visible = logicalAnd(own, isBefore);
  return keyMask ? logicalAnd(visible, reshape(keyMask, [B, 1, T])) : visible;
}

/** Rotates half-split pairs of x [T, B, H, W] by rows [T, B, 1, W / 2] of each position. */
export function rotateEach(x: Tensor, cos: Tensor, sin: Tensor): Tensor {
  const half = x.shape[3]! / 2;
  const [a, b] = [slice(x, 3, 0, half), slice(x, 3, half)];
  return concat([sub(mul(a, cos), mul(b, sin)), add(mul(b, cos), mul(a, sin))], 3);
}
