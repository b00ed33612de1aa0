// The form before PyTorch 1.6: five pickles one after another (magic number, protocol, facts about the machine, the
// value, the keys of the storages), then each storage as its number of elements and its bytes.

import type { ByteSource } from "../../safetensors/source.js";
import { TORCH_DTYPE_BYTES } from "../dtypes.js";
import { quote, TorchFileError, type TorchProblem } from "../errors.js";
import type { TorchLimits } from "../limits.js";
import { type PickleOptions, runPickle } from "../pickle/machine.js";
import { dataView, readRange } from "../source.js";
import type { TorchStorage, TorchValue } from "../values.js";
import { StorageTable, type TorchContents } from "./contents.js";

const MAGIC_NUMBER = 0x1950a86a20f9469cfc6cn;
const PROTOCOL_VERSION = 1001;
const FIRST_WINDOW_BYTES = 2 ** 16;
const COUNT_BYTES = 8;

export async function readLegacyFile(source: ByteSource, limits: TorchLimits): Promise<TorchContents> {
  const reader = new PickleSequence(source, limits);
  if ((await reader.next()) !== MAGIC_NUMBER)
    throw refuse(
      source,
      "not_torch",
      "the file starts with a pickle, but not with PyTorch's magic number",
      0,
    );
  const protocol = await reader.next();
  if (protocol !== PROTOCOL_VERSION)
    throw refuse(
      source,
      "unsupported",
      `protocol version ${String(protocol)}; only ${PROTOCOL_VERSION} is read`,
    );
  const facts = await reader.next();
  if (!(facts instanceof Map) || facts.get("little_endian") !== true)
    throw refuse(source, "byte_order", "the file was not written on a little-endian machine");
  const table = new StorageTable(true);
  const root = await reader.next((id, fail) => table.resolve(id, fail));
  const keys = await reader.next();
  if (!Array.isArray(keys)) throw refuse(source, "pickle", "the list of storages is missing", reader.offset);
  const offsets = await readOffsets(source, table, keys as TorchValue[], reader.offset);
  return { format: "legacy", root, locate: async (storage) => offsets.get(storage)! };
}

/** Walks over the storages, whose sizes stand before their bytes. */
async function readOffsets(
  source: ByteSource,
  { storages }: StorageTable,
  keys: readonly TorchValue[],
  start: number,
): Promise<ReadonlyMap<TorchStorage, number>> {
  const offsets = new Map<TorchStorage, number>();
  let offset = start;
  for (const key of keys) {
    const storage = typeof key === "string" ? storages.get(key) : undefined;
    if (storage === undefined || offsets.has(storage))
      throw refuse(
        source,
        "storage",
        `the list of storages has ${quote(String(key))} twice or in vain`,
        offset,
      );
    const width = storage.dtype === undefined ? 1 : TORCH_DTYPE_BYTES[storage.dtype];
    const count = dataView(await readRange(source, offset, COUNT_BYTES)).getBigInt64(0, true);
    if (count * BigInt(width) !== BigInt(storage.sizeBytes))
      throw refuse(
        source,
        "storage",
        `storage ${quote(storage.key)} should have ${storage.sizeBytes / width} elements, its data has ${count}`,
        offset,
      );
    offset += COUNT_BYTES;
    // An empty read at the end of the storage: fails where the file ends before.
    await readRange(source, offset + storage.sizeBytes, 0);
    offsets.set(storage, offset);
    offset += storage.sizeBytes;
  }
  for (const storage of storages.values())
    if (!offsets.has(storage))
      throw refuse(source, "missing_record", `the file has no data of storage ${quote(storage.key)}`);
  return offsets;
}

/** Pickles one after another. Where one ends is known only by following it, so a window of the file grows. */
class PickleSequence {
  offset = 0;
  #windowBytes = FIRST_WINDOW_BYTES;

  constructor(
    private readonly source: ByteSource,
    private readonly limits: TorchLimits,
  ) {}

  async next(resolveStorage?: PickleOptions["resolveStorage"]): Promise<TorchValue> {
    const { source, limits, offset: baseOffset } = this;
    for (;;) {
      const rest = source.sizeBytes - baseOffset;
      const length = Math.min(this.#windowBytes, rest, limits.maxPickleBytes);
      const bytes = await readRange(source, baseOffset, length);
      try {
        const result = runPickle(bytes, {
          file: source.name,
          baseOffset,
          limits,
          ...(resolveStorage === undefined ? {} : { resolveStorage }),
        });
        this.offset += result.length;
        return result.value;
      } catch (error) {
        const isCut = error instanceof TorchFileError && error.code === "torch.truncated";
        if (!isCut || length === rest) throw error;
        if (length === limits.maxPickleBytes)
          throw refuse(
            source,
            "limit",
            `the pickle has more than ${limits.maxPickleBytes} bytes`,
            baseOffset,
          );
        const need = Number(error.details.need) - baseOffset;
        this.#windowBytes = Math.max(4 * length, need);
      }
    }
  }
}

function refuse(source: ByteSource, problem: TorchProblem, message: string, offset?: number): TorchFileError {
  return new TorchFileError(problem, message, { file: source.name, offset });
}
