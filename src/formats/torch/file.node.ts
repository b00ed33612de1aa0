// PyTorch files on disk. Node only.

import { fileSource } from "../safetensors/file.node.js";
import type { TorchLimits } from "./limits.js";
import { readTorchFile, type TorchFile } from "./torch-file.js";

/**
 * Opens a file by reading its description only; `close` it after use.
 * @throws TorchFileError for whatever is damaged, unknown or not harmless; errors of the file system pass through.
 */
export async function openTorchFile(path: string, limits: Partial<TorchLimits> = {}): Promise<TorchFile> {
  const source = await fileSource(path);
  try {
    return await readTorchFile(source, limits);
  } catch (error) {
    await source.close();
    throw error;
  }
}
