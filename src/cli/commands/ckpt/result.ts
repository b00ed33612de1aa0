// What the rewriting tools share: the input, the plan's streams into the output, progress, and a closing line.

import type { TensorStream } from "../../../formats/safetensors/index.js";
import type { Written } from "../../../interchange/tools/output.node.js";
import type { TensorSet } from "../../../interchange/tools/tensor-set.js";
import type { CliContext } from "../../context.js";
import { formatBytes, plural, shownName } from "./format.js";
import { startProgress } from "./progress.js";

/** Bytes of tensor data that `streams` will give. */
export async function streamBytes(streams: readonly TensorStream[]): Promise<number> {
  const { DTYPE_BITS } = await import("../../../formats/safetensors/index.js");
  return streams.reduce(
    (sum, { dtype, shape }) =>
      sum + (shape.reduce((product, size) => product * size, 1) * DTYPE_BITS[dtype]) / 8,
    0,
  );
}

/** Writes with a progress bar that is gone afterwards, whatever happens. */
export async function withProgress(
  context: CliContext,
  verb: string,
  streams: readonly TensorStream[],
  write: (onBytes: (bytes: number, tensor: string) => void) => Promise<Written>,
): Promise<Written> {
  const progress = startProgress(context, verb, await streamBytes(streams));
  try {
    return await write(progress.advance);
  } finally {
    progress.close();
  }
}

export function reportWritten(context: CliContext, written: Written, tensors: number): void {
  const { path, files, sizeBytes } = written;
  const inFiles = files.length > 1 ? ` in ${plural(files.length, "file")}` : "";
  context.out(
    `wrote ${shownName(path)}: ${plural(tensors, "tensor")}, ${formatBytes(sizeBytes)}${inFiles}\n`,
  );
}

/** Closes the sets whatever `work` does. */
export async function using<T>(sets: readonly TensorSet[], work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } finally {
    for (const set of sets) await set.close();
  }
}
