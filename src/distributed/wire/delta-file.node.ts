// Delta files on disk. Node only.

import type { TensorStream } from "../../formats/safetensors/index.js";
import { fileSource } from "../../formats/safetensors/index.node.js";
import { type AtomicWriteOptions, writeStreamAtomically } from "../../util/atomic-file.node.js";
import { type Delta, loadDelta, unreadableDelta, writeDelta } from "./delta-file.js";
import type { DeltaHeaderInput } from "./delta-header.js";

/**
 * `loadDelta` for a file on disk, which must not be written to while the delta is open (replacing it by rename is fine).
 * @throws WireError `wire.unreadable_delta` for whatever is wrong with the file or the access to it,
 *   `wire.invalid_header`.
 */
export async function loadDeltaFile(path: string): Promise<Delta> {
  let source: Awaited<ReturnType<typeof fileSource>>;
  try {
    source = await fileSource(path);
  } catch (error) {
    throw unreadableDelta(path, error as Error);
  }
  return loadDelta(source);
}

/**
 * `writeDelta` into a file, atomically and with its parent folders; returns its size in bytes.
 * @throws WireError as `writeDelta` does, FileWriteError; `path` is unchanged then.
 */
export async function saveDeltaFile(
  path: string,
  tensors: Iterable<TensorStream>,
  header: DeltaHeaderInput,
  options: AtomicWriteOptions = {},
): Promise<number> {
  let sizeBytes = 0;
  await writeStreamAtomically(
    path,
    async (sink) => {
      sizeBytes = await writeDelta(sink, tensors, header);
    },
    { createFolders: true, ...options },
  );
  return sizeBytes;
}
