// Between named host tensors and a safetensors file: dtypes, and tied tensors, which stand in the file once and
// come back as one object under all their names. The bytes themselves are the format's business.

import {
  openSafetensorsFile,
  type SafetensorsReader,
  type TensorEntry,
  type TensorStream,
} from "../formats/safetensors/index.node.js";
import { allocate, type DType, type TensorData } from "../tensor/dtype.js";
import { decodeFloat16, encodeFloat16 } from "../util/half.js";
import { corrupt } from "./failure.js";

/** Whether tied tensors are written under one of their names or under each (for readers elsewhere). */
export type TiedTensors = "once" | "each";

export interface TensorPlan {
  readonly streams: readonly TensorStream[];
  /** Tied name → name of the same tensor that comes first. */
  readonly aliases: Readonly<Record<string, string>>;
}

const fileDtypes = { float32: "F32", float64: "F64", float16: "F16", int32: "I32", bool: "BOOL" } as const;
const hostDtypes: ReadonlyMap<string, DType> = new Map(
  Object.entries(fileDtypes).map(([host, file]) => [file, host as DType]),
);

/** float16 is encoded in pieces of this many elements, so that no second copy of a tensor arises. */
const PIECE_ELEMENTS = 1 << 18;

export function planTensors(tensors: ReadonlyMap<string, TensorData>, tied: TiedTensors): TensorPlan {
  const streams: TensorStream[] = [];
  const aliases = new Map<string, string>();
  const firstNames = new Map<ArrayBufferLike, Map<string, string>>();
  for (const [name, tensor] of tensors) {
    const { buffer, byteOffset, byteLength } = tensor.data;
    const sameBuffer = firstNames.get(buffer) ?? new Map<string, string>();
    firstNames.set(buffer, sameBuffer);
    const place = `${tensor.dtype} ${tensor.shape.join("x")} ${byteOffset} ${byteLength}`;
    const firstName = byteLength === 0 ? undefined : sameBuffer.get(place);
    if (firstName === undefined) sameBuffer.set(place, name);
    else aliases.set(name, firstName);
    if (firstName === undefined || tied === "each") streams.push(streamOf(name, tensor));
  }
  return { streams, aliases: Object.fromEntries(aliases) };
}

function streamOf(name: string, { dtype, shape, data }: TensorData): TensorStream {
  if (dtype !== "float16") return { name, dtype: fileDtypes[dtype], shape, data };
  return {
    name,
    dtype: "F16",
    shape,
    data: function* () {
      for (let begin = 0; begin < data.length; begin += PIECE_ELEMENTS) {
        const bits = encodeFloat16(data.subarray(begin, begin + PIECE_ELEMENTS) as Float32Array);
        yield new Uint8Array(bits.buffer, bits.byteOffset, bits.byteLength);
      }
    },
  };
}

/** Reads all tensors of a file, one after the other, and ties aliases again. */
export async function readTensors(
  path: string,
  aliases: Readonly<Record<string, string>>,
): Promise<Map<string, TensorData>> {
  const reader = await openSafetensorsFile(path);
  try {
    const tensors = new Map<string, TensorData>();
    for (const entry of reader.entries.values())
      tensors.set(entry.name, await readTensor(reader, entry, path));
    for (const [alias, name] of Object.entries(aliases)) retie(tensors, alias, name, path);
    return tensors;
  } finally {
    await reader.close();
  }
}

async function readTensor(reader: SafetensorsReader, entry: TensorEntry, path: string): Promise<TensorData> {
  const { name, shape } = entry;
  const dtype = hostDtypes.get(entry.dtype);
  if (dtype === undefined) {
    throw corrupt(
      `${path}: tensor "${name}" has dtype ${entry.dtype}; a checkpoint holds ${[...hostDtypes.keys()].join(", ")} ` +
        "only, so another program wrote this file",
      { path, tensor: name, expected: [...hostDtypes.keys()], found: entry.dtype },
    );
  }
  if (dtype === "float16") {
    const bits = new Uint16Array(entry.sizeBytes / 2);
    await reader.readInto(name, bits);
    return { dtype, shape, data: decodeFloat16(bits) };
  }
  const size = shape.reduce((product, dimension) => product * dimension, 1);
  const data = allocate(dtype, size);
  await reader.readInto(name, data);
  return { dtype, shape, data };
}

function retie(tensors: Map<string, TensorData>, alias: string, name: string, path: string): void {
  const target = tensors.get(name);
  if (target === undefined) {
    throw corrupt(`${path}: tensor "${name}" is missing, though "${alias}" is tied to it`, {
      path,
      tensor: name,
    });
  }
  const other = tensors.get(alias);
  if (other !== undefined && !isSame(other, target)) {
    throw corrupt(
      `${path}: tensors "${alias}" and "${name}" are tied but their values differ; decide which one is right and ` +
        "write the file again",
      { path, tensor: alias, tiedTo: name },
    );
  }
  tensors.set(alias, target);
}

function isSame(a: TensorData, b: TensorData): boolean {
  if (a.dtype !== b.dtype || a.shape.join() !== b.shape.join()) return false;
  const [left, right] = [a.data, b.data].map(({ buffer, byteOffset, byteLength }) =>
    Buffer.from(buffer, byteOffset, byteLength),
  );
  return left!.equals(right!);
}
