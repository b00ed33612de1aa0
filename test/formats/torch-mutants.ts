// Deterministic mutants of PyTorch files for fuzzing: blind ones, edits of the pickle that know its instructions
// (the container around it stays sound), and flips in the tensors' data.

import { bytesSource } from "../../src/formats/safetensors/index.js";
import { readLegacyFile } from "../../src/formats/torch/container/legacy-file.js";
import { locateRecord, readZipDirectory } from "../../src/formats/torch/container/zip.js";
import { readZipFile } from "../../src/formats/torch/container/zip-file.js";
import {
  DEFAULT_TORCH_LIMITS,
  readTorchFile,
  TorchStorage,
  TorchTensor,
} from "../../src/formats/torch/index.js";
import { below, flipBits, type Mutant, pick, type Random, randomBytes, splice } from "./mutants.js";
import { asm, call, le, type ZipEntry, zip } from "./torch-craft.js";

/** A valid file, taken apart. */
export interface TorchSeed {
  readonly name: string;
  readonly file: Uint8Array;
  /** Bytes of the file that belong to tensors' storages. */
  readonly data: readonly { readonly begin: number; readonly end: number }[];
  /** The records of a zip file; the legacy form has none. */
  readonly records: readonly ZipEntry[] | undefined;
  /** Where the pickle lies: in the file, or in its own record. */
  readonly pickle: Uint8Array;
  readonly pickleBegin: number;
}

export async function takeApart(name: string, file: Uint8Array): Promise<TorchSeed> {
  const source = bytesSource(file, name);
  const { format } = await readTorchFile(source);
  const read = format === "zip" ? readZipFile : readLegacyFile;
  const { root, locate } = await read(source, DEFAULT_TORCH_LIMITS);
  const data = [];
  for (const storage of new Set(storagesOf(root))) {
    const begin = await locate(storage);
    if (storage.sizeBytes > 0) data.push({ begin, end: begin + storage.sizeBytes });
  }
  if (format === "legacy") {
    const pickle = file.subarray(0, Math.min(...data.map(({ begin }) => begin)));
    return { name, file, data, records: undefined, pickle, pickleBegin: 0 };
  }
  const records: ZipEntry[] = [];
  let pickleBegin = 0;
  for (const record of (await readZipDirectory(source, DEFAULT_TORCH_LIMITS)).values()) {
    const begin = await locateRecord(source, record);
    if (record.name.endsWith("data.pkl")) pickleBegin = begin;
    records.push({ name: record.name, bytes: file.subarray(begin, begin + record.sizeBytes) });
  }
  const { bytes } = records.find((record) => (record.name as string).endsWith("data.pkl"))!;
  return { name, file, data, records, pickle: bytes, pickleBegin };
}

/** Every storage of a tree; the same file read twice gives other objects. */
function storagesOf(root: unknown): TorchStorage[] {
  if (root instanceof TorchTensor) return [root.storage];
  if (root instanceof TorchStorage) return [root];
  if (root instanceof Map) return [...root.values()].flatMap(storagesOf);
  return Array.isArray(root) ? root.flatMap(storagesOf) : [];
}

/** Puts another pickle into the file; the container says the truth about it. */
function withPickle(seed: TorchSeed, pickle: Uint8Array): Uint8Array {
  if (seed.records === undefined) return splice(seed.file, seed.pickleBegin, seed.pickle.byteLength, pickle);
  return zip(
    seed.records.map((record) => (record.bytes === seed.pickle ? { ...record, bytes: pickle } : record)),
  );
}

const NUMBERS = [0, 1, 2, 3, 127, 255, 256, 65_535, 2 ** 31 - 1, 2 ** 31, 2 ** 32 - 1];
const SNIPPETS: readonly (readonly number[])[] = [
  ...Object.values(asm).flatMap((make) => (make.length === 0 ? [(make as () => number[])()] : [])),
  asm.text("os"),
  asm.global("os", "system"),
  asm.global("torch._utils", "_rebuild_tensor_v2"),
  asm.global("torch", "FloatStorage"),
  call("collections", "OrderedDict"),
  asm.int(-1),
  asm.get(0),
  asm.get(1),
  asm.put(0),
  asm.long4(5),
  asm.bytes8(2n ** 33n),
  asm.ext1(1),
  [...asm.emptyList(), ...asm.put(0), ...asm.get(0), ...asm.append()],
  Array.from({ length: 300 }, () => 0x5d),
  Array.from({ length: 300 }, () => 0x32),
  Array.from({ length: 300 }, () => 0x28),
];

const PICKLE_EDITS: readonly ((pickle: Uint8Array, random: Random) => Uint8Array)[] = [
  (pickle, random) => flipBits(pickle, random, 0, pickle.byteLength, 1 + below(random, 3)),
  (pickle, random) =>
    splice(pickle, below(random, pickle.byteLength), 1, Uint8Array.from(pick(random, SNIPPETS))),
  (pickle, random) =>
    splice(pickle, below(random, pickle.byteLength), 0, Uint8Array.from(pick(random, SNIPPETS))),
  (pickle, random) =>
    splice(pickle, below(random, pickle.byteLength), 1 + below(random, 8), new Uint8Array(0)),
  (pickle, random) =>
    splice(pickle, below(random, pickle.byteLength), 4, Uint8Array.from(le(pick(random, NUMBERS), 4))),
  (pickle, random) => {
    // An argument of one of the small integers: sizes, strides, offsets, counts.
    const places = [...pickle.keys()].filter((i) => pickle[i] === 0x4b && i + 1 < pickle.byteLength);
    if (places.length === 0) return pickle;
    const at = pick(random, places);
    return splice(pickle, at, 2, Uint8Array.from(asm.int(pick(random, NUMBERS) | 0)));
  },
  (pickle, random) => {
    const [from, to] = [below(random, pickle.byteLength), below(random, pickle.byteLength)];
    const part = pickle.slice(from, from + 1 + below(random, 60));
    return splice(pickle, to, below(random, 2) * part.byteLength, part);
  },
  (pickle, random) => {
    // A memo reference to another value.
    const places = [...pickle.keys()].filter((i) => pickle[i] === 0x68 && i + 1 < pickle.byteLength);
    if (places.length === 0) return pickle;
    return splice(pickle, pick(random, places) + 1, 1, Uint8Array.of(below(random, 60)));
  },
];

const editPickle = (seed: TorchSeed, random: Random, times: number): Mutant => {
  let { pickle } = seed;
  for (let i = 0; i < times; i++) pickle = pick(random, PICKLE_EDITS)(pickle, random);
  return { bytes: withPickle(seed, pickle) };
};

/** Each kind of mutation, by name. */
export const TORCH_MUTATORS = {
  "flip bits anywhere": ({ file }, random) => ({
    bytes: flipBits(file, random, 0, file.byteLength, 1 + below(random, 8)),
  }),
  "flip bits in the pickle": ({ file, pickle, pickleBegin }, random) => ({
    bytes: flipBits(file, random, pickleBegin, pickleBegin + pickle.byteLength, 1 + below(random, 3)),
  }),
  "flip bits in the zip directory": ({ file, records }, random) => ({
    bytes: flipBits(
      file,
      random,
      records === undefined ? 0 : Math.floor(file.byteLength * 0.7),
      file.byteLength,
      2,
    ),
  }),
  "flip a bit in the data": ({ file, data }, random) => {
    const { begin, end } = pick(random, data);
    const flip = { position: begin + below(random, end - begin), mask: 1 << below(random, 8) };
    const bytes = file.slice();
    bytes[flip.position] = bytes[flip.position]! ^ flip.mask;
    return { bytes, flip };
  },
  truncate: ({ file }, random) => ({ bytes: file.slice(0, below(random, file.byteLength)) }),
  "insert bytes": ({ file }, random) => {
    const inserted = randomBytes(random, 1 + below(random, pick(random, [4, 64, 5000])));
    return { bytes: splice(file, below(random, file.byteLength + 1), 0, inserted) };
  },
  "remove bytes": ({ file }, random) => ({
    bytes: splice(file, below(random, file.byteLength), 1 + below(random, 64), new Uint8Array(0)),
  }),
  "edit the pickle": (seed, random) => editPickle(seed, random, 1),
  "edit the pickle thrice": (seed, random) => editPickle(seed, random, 3),
} as const satisfies Record<string, (seed: TorchSeed, random: Random) => Mutant>;

export type TorchMutatorName = keyof typeof TORCH_MUTATORS;
