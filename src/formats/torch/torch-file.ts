// A PyTorch file (.pt, .pth, .bin) without PyTorch and without running anything that is in it: its tree of values,
// and its tensors, which are read when they are asked for.

import type { ByteSource } from "../safetensors/source.js";
import { readLegacyFile } from "./container/legacy-file.js";
import { readZipFile } from "./container/zip-file.js";
import { safetensorsDtypeOf } from "./dtypes.js";
import { TorchFileError, torchTruncated } from "./errors.js";
import { DEFAULT_TORCH_LIMITS, type TorchLimits } from "./limits.js";
import { denseSizeBytes, readTensorBytes, TorchTensorReader } from "./reader.js";
import { readRange } from "./source.js";
import { checkTree, collectTensors, valueAt } from "./tree.js";
import type { TorchTensor, TorchValue } from "./values.js";

export interface TorchFile {
  readonly file: string | undefined;
  /** `zip`: PyTorch 1.6 and later; `legacy`: before, or on request. */
  readonly format: "zip" | "legacy";
  /** Everything that was saved. Free of circles, and small enough to be walked. */
  readonly root: TorchValue;
  /** All tensors by dotted name: `model.wte.weight`, `optimizer.state.0.exp_avg`. */
  readonly tensors: TorchTensorReader;
  /** Tensors whose type the safetensors format lacks (complex128): not in `tensors`; see `readBytes`. */
  readonly withoutEntry: ReadonlyMap<string, TorchTensor>;
  /** The value at a path of keys. @throws TorchFileError `tensor_not_found` */
  valueAt(...path: string[]): TorchValue;
  /** The tensors below a path, by their names from there on. Closing it closes the file. */
  tensorsAt(...path: string[]): TorchTensorReader;
  /** A tensor of the tree: little-endian, row-major, without gaps. */
  readBytes(tensor: TorchTensor): Promise<Uint8Array>;
  close(): Promise<void>;
}

const ZIP_MAGIC = [0x50, 0x4b, 0x03, 0x04];
const PROTO = 0x80;
/** What `looksLikeTorchFile` needs. */
const SNIFF_BYTES = 4;

/** Whether the first bytes of a file are those of one of the two forms (or of another zip container or pickle). */
export function looksLikeTorchFile(firstBytes: Uint8Array): boolean {
  return isZip(firstBytes) || (firstBytes[0] === PROTO && firstBytes[1]! >= 2 && firstBytes[1]! <= 5);
}

/**
 * Opens a file: its description is read and checked, its tensors are not.
 * @throws TorchFileError for whatever is damaged, unknown or not harmless; errors of the source pass through.
 */
export async function readTorchFile(
  source: ByteSource,
  limits: Partial<TorchLimits> = {},
): Promise<TorchFile> {
  const allLimits = { ...DEFAULT_TORCH_LIMITS, ...limits };
  const { name: file, sizeBytes } = source;
  if (sizeBytes < SNIFF_BYTES) throw torchTruncated(sizeBytes, SNIFF_BYTES, { file });
  const firstBytes = await readRange(source, 0, SNIFF_BYTES);
  if (!looksLikeTorchFile(firstBytes)) {
    const message =
      "neither a zip container nor a pickle, so no file of PyTorch (or one from before version 0.1.10)";
    throw new TorchFileError("not_torch", message, { file, offset: 0 });
  }
  const read = isZip(firstBytes) ? readZipFile : readLegacyFile;
  const { format, root, locate } = await read(source, allLimits);
  checkTree(root, allLimits, file);
  const tensors = collectTensors(root, allLimits, { name: file, sizeBytes });
  const places = { source, locate };
  const close = async () => source.close?.();
  return {
    file,
    format,
    root,
    tensors: new TorchTensorReader(tensors, places, close),
    withoutEntry: new Map([...tensors].filter(([, { dtype }]) => safetensorsDtypeOf(dtype) === undefined)),
    valueAt: (...path) => valueAt(root, path, file),
    tensorsAt: (...path) => {
      const below = collectTensors(valueAt(root, path, file), allLimits, { name: file, sizeBytes });
      return new TorchTensorReader(below, places, close);
    },
    readBytes: (tensor) => readTensorBytes(places, tensor, 0, denseSizeBytes(tensor)),
    close,
  };
}

function isZip(bytes: Uint8Array): boolean {
  return ZIP_MAGIC.every((byte, i) => bytes[i] === byte);
}
