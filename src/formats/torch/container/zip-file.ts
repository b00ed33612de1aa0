// The form of PyTorch 1.6 and later: a zip container with the pickle `<name>/data.pkl` and one record
// `<name>/data/<key>` for each storage.

import type { ByteSource } from "../../safetensors/source.js";
import { quote, TorchFileError, type TorchProblem } from "../errors.js";
import type { TorchLimits } from "../limits.js";
import { runPickle } from "../pickle/machine.js";
import { readRange } from "../source.js";
import type { TorchStorage } from "../values.js";
import { StorageTable, type TorchContents } from "./contents.js";
import { locateRecord, readZipDirectory, type ZipRecord } from "./zip.js";

/** Newest version of the container that PyTorch's own reader takes. */
const MAX_VERSION = 10;
const PICKLE = "/data.pkl";
const MAX_TEXT_BYTES = 100;

export async function readZipFile(source: ByteSource, limits: TorchLimits): Promise<TorchContents> {
  const records = await readZipDirectory(source, limits);
  const prefix = findPrefix(source, records);
  const text = async (name: string) => {
    const record = records.get(`${prefix}/${name}`);
    if (record === undefined) return undefined;
    const length = Math.min(record.sizeBytes, MAX_TEXT_BYTES);
    return new TextDecoder()
      .decode(await readRange(source, await locateRecord(source, record), length))
      .trim();
  };
  const byteOrder = await text("byteorder");
  if (byteOrder !== undefined && byteOrder !== "little")
    throw refuse(
      source,
      "byte_order",
      `the file was written with byte order ${quote(byteOrder)}; only little is read`,
    );
  const version = await text("version");
  if (version !== undefined && !(Number(version) >= 1 && Number(version) <= MAX_VERSION))
    throw refuse(
      source,
      "unsupported",
      `the container has version ${quote(version)}; 1 to ${MAX_VERSION} are read`,
    );

  const pickle = records.get(prefix + PICKLE)!;
  const baseOffset = await locateRecord(source, pickle);
  if (pickle.sizeBytes > limits.maxPickleBytes)
    throw refuse(
      source,
      "limit",
      `the pickle has ${pickle.sizeBytes} bytes; at most ${limits.maxPickleBytes} are read`,
    );
  const bytes = await readRange(source, baseOffset, pickle.sizeBytes);
  const table = new StorageTable(false);
  const recordOf = (storage: TorchStorage) => records.get(`${prefix}/data/${storage.key}`);
  const { value: root, length } = runPickle(bytes, {
    file: source.name,
    baseOffset,
    limits,
    resolveStorage: (id, fail) => {
      const storage = table.resolve(id, fail);
      const record =
        recordOf(storage) ?? fail("missing_record", `the file has no data of storage ${quote(storage.key)}`);
      if (record.sizeBytes !== storage.sizeBytes)
        fail(
          "storage",
          `storage ${quote(storage.key)} should have ${storage.sizeBytes} bytes, its record has ${record.sizeBytes}`,
        );
      return storage;
    },
  });
  if (length !== bytes.byteLength)
    throw refuse(source, "pickle", `${bytes.byteLength - length} bytes follow the end of the pickle`);

  const offsets = new Map<TorchStorage, Promise<number>>();
  return {
    format: "zip",
    root,
    locate: (storage) => {
      const known = offsets.get(storage) ?? locateRecord(source, recordOf(storage)!);
      offsets.set(storage, known);
      return known;
    },
  };
}

function findPrefix(source: ByteSource, records: ReadonlyMap<string, ZipRecord>): string {
  const names = [...records.keys()];
  const found = names.filter(
    (name) => name.endsWith(PICKLE) && name.indexOf("/") === name.length - PICKLE.length,
  );
  if (found.length > 1)
    throw refuse(
      source,
      "duplicate_record",
      `the zip container has two pickles: ${found.map(quote).join(" and ")}`,
    );
  const [name] = found;
  if (name === undefined)
    throw refuse(
      source,
      "not_torch",
      "a zip container without data.pkl in one folder, so no file of PyTorch",
    );
  const prefix = name.slice(0, -PICKLE.length);
  if (names.some((record) => record === `${prefix}/constants.pkl` || record.startsWith(`${prefix}/code/`)))
    throw refuse(
      source,
      "unsupported",
      "the file is a TorchScript program, not a set of tensors; save its state_dict()",
    );
  return prefix;
}

function refuse(source: ByteSource, problem: TorchProblem, message: string): TorchFileError {
  return new TorchFileError(problem, message, { file: source.name });
}
