// Tensors of a checkpoint that stay where they are until somebody reads them, one by one or piece by piece: so that
// a resume needs no second copy of a model. From a file, or from a content that is in memory already.

import {
  fileSource,
  openSafetensors,
  type SafetensorsReader,
  toFloat32,
} from "../formats/safetensors/index.node.js";
import { allocate, type DType, type TensorData } from "../tensor/dtype.js";
import { sizeOf } from "../tensor/shape.js";
import { decodeFloat16 } from "../util/half.js";
import { corrupt } from "./failure.js";
import { fileDtypes } from "./tensor-file.js";

export interface StoredTensor {
  readonly dtype: DType;
  readonly shape: readonly number[];
  /** The name under which the values stand; another than its own for a tied tensor. */
  readonly source: string;
}

export interface StoredTensors {
  /** By name, tied ones under all their names. */
  readonly entries: ReadonlyMap<string, StoredTensor>;
  /** A whole tensor. */
  read(name: string): Promise<TensorData>;
  /** Elements `begin`, `begin + 1` … of a float32 tensor, as many as `into` takes. Needs no other memory. */
  readPart(name: string, begin: number, into: Float32Array): Promise<void>;
  close(): Promise<void>;
}

/** Stored dtype → host dtype. Narrower floats of other writers are widened, which loses nothing. */
const hostDtypes: ReadonlyMap<string, DType> = new Map<string, DType>([
  ...Object.entries(fileDtypes).map(([host, file]) => [file, host as DType] as const),
  ["BF16", "float32"],
]);
const COMPARE_BYTES = 1 << 22;

/**
 * Opens a tensor file by its header. Everything that can be wrong without looking at values is found here.
 * @param aliases tied name → name under which the values stand
 * @throws CheckpointError for dtypes that a checkpoint does not hold and for broken ties; errors of the format.
 */
export async function openTensors(
  path: string,
  aliases: Readonly<Record<string, string>>,
): Promise<StoredTensors> {
  const source = await fileSource(path);
  try {
    const reader = await openSafetensors(source);
    const entries = new Map<string, StoredTensor>();
    for (const { name, shape, dtype } of reader.entries.values())
      entries.set(name, { dtype: hostDtype(dtype, name, path), shape, source: name });
    for (const [alias, name] of Object.entries(aliases)) await tie(entries, alias, name, reader, path);
    const entryOf = (name: string) => {
      const entry = entries.get(name);
      if (entry) return { ...entry, stored: reader.entry(entry.source) };
      throw corrupt(`${path}: tensor "${name}" is missing`, { path, tensor: name });
    };
    const read = async (name: string): Promise<TensorData> => {
      const { dtype, shape, stored } = entryOf(name);
      if (stored.dtype === "BF16") return { dtype, shape, data: toFloat32(await reader.read(stored.name)) };
      if (dtype === "float16") {
        const bits = new Uint16Array(stored.sizeBytes / 2);
        await reader.readInto(stored.name, bits);
        return { dtype, shape, data: decodeFloat16(bits) };
      }
      const data = allocate(dtype, sizeOf(shape));
      await reader.readInto(stored.name, data);
      return { dtype, shape, data };
    };
    return {
      entries,
      read,
      readPart: async (name, begin, into) => {
        const { stored } = entryOf(name);
        if (stored.dtype !== "F32") {
          into.set(((await read(name)).data as Float32Array).subarray(begin, begin + into.length));
          return;
        }
        const bytes = new Uint8Array(into.buffer, into.byteOffset, into.byteLength);
        await source.readInto(reader.dataStart + stored.dataOffsets[0] + 4 * begin, bytes);
      },
      close: () => source.close(),
    };
  } catch (error) {
    await source.close();
    throw error;
  }
}

/** Tensors that are in memory, behind the same face. */
export function heldTensors(tensors: ReadonlyMap<string, TensorData>): StoredTensors {
  return {
    entries: new Map([...tensors].map(([name, { dtype, shape }]) => [name, { dtype, shape, source: name }])),
    read: async (name) => tensors.get(name)!,
    readPart: async (name, begin, into) => {
      into.set(tensors.get(name)!.data.subarray(begin, begin + into.length));
    },
    close: async () => undefined,
  };
}

/** Reads all of them, one after the other; tied tensors become one object under all their names. */
export async function readAll(tensors: StoredTensors): Promise<Map<string, TensorData>> {
  const bySource = new Map<string, TensorData>();
  for (const { source } of tensors.entries.values())
    if (!bySource.has(source)) bySource.set(source, await tensors.read(source));
  return new Map([...tensors.entries].map(([name, { source }]) => [name, bySource.get(source)!]));
}

function hostDtype(found: string, name: string, path: string): DType {
  const dtype = hostDtypes.get(found);
  if (dtype !== undefined) return dtype;
  throw corrupt(
    `${path}: tensor "${name}" has dtype ${found}; a checkpoint holds ${[...hostDtypes.keys()].join(", ")} ` +
      "only, so another program wrote this file",
    { path, tensor: name, expected: [...hostDtypes.keys()], found },
  );
}

async function tie(
  entries: Map<string, StoredTensor>,
  alias: string,
  name: string,
  reader: SafetensorsReader,
  path: string,
): Promise<void> {
  const target = entries.get(name);
  if (target === undefined) {
    throw corrupt(`${path}: tensor "${name}" is missing, though "${alias}" is tied to it`, {
      path,
      tensor: name,
    });
  }
  const other = entries.get(alias);
  if (other !== undefined && !(await isSame(reader, alias, name))) {
    throw corrupt(
      `${path}: tensors "${alias}" and "${name}" are tied but their values differ; decide which one is right and ` +
        "write the file again",
      { path, tensor: alias, tiedTo: name },
    );
  }
  entries.set(alias, target);
}

async function isSame(reader: SafetensorsReader, first: string, second: string): Promise<boolean> {
  const [a, b] = [reader.entry(first), reader.entry(second)];
  if (a.dtype !== b.dtype || a.shape.join() !== b.shape.join()) return false;
  for (let begin = 0; begin < a.sizeBytes; begin += COMPARE_BYTES) {
    const end = Math.min(begin + COMPARE_BYTES, a.sizeBytes);
    const [left, right] = [
      await reader.readRange(first, begin, end),
      await reader.readRange(second, begin, end),
    ];
    if (Buffer.compare(left, right) !== 0) return false;
  }
  return true;
}
