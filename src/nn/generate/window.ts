// Which part of a sequence the model sees when the sequence outgrows its context.

/**
 * Start of the window for predicting token `length` of a sequence. Up to `blockSize` tokens all are seen. When
 * the window is full, the next one begins so that the last half of the context (rounded down, at least one
 * token) is kept, with positions counted anew; then it grows again. The start depends on the length alone:
 * it does not matter where the prompt ended.
 */
export function windowStart(length: number, blockSize: number): number {
  if (length <= blockSize) return 0;
  const kept = Math.max(1, Math.floor(blockSize / 2));
  const stride = blockSize + 1 - kept;
  return Math.ceil((length - blockSize) / stride) * stride;
}
