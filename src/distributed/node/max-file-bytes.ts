// How large a file with a model's tensors can be at most. The sizes of files in a repository are somebody else's words:
// what is larger than this is refused before a byte of it is fetched.

/** Room for a header: names, shapes and metadata. */
const HEADER_BASE_BYTES = 2 ** 20;
const HEADER_BYTES_PER_TENSOR = 1024;
const WIDEST_BYTES = 8;

/** Larger than any file that holds these tensors in their widest dtype. */
export function maxFileBytes(
  tensors: Iterable<readonly [name: string, tensor: { readonly shape: readonly number[] }]>,
): number {
  let bytes = HEADER_BASE_BYTES;
  for (const [name, { shape }] of tensors) {
    const elements = shape.reduce((product, size) => product * size, 1);
    bytes += elements * WIDEST_BYTES + name.length * 8 + HEADER_BYTES_PER_TENSOR;
  }
  return bytes;
}
