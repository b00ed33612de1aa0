// Looks for everything that can be wrong with a model on disk without running it: files that differ from their
// recorded size or hash, broken structure, values that are no numbers. Finds all of it instead of stopping at the
// first, and changes nothing.

import { basename, join } from "node:path";
import { verifyFiles } from "../../checkpoint/verify.js";
import { readPieces, type SafetensorsDtype, type TensorReader } from "../../formats/safetensors/index.js";
import { SpeedtronicError } from "../../util/errors.js";
import { type CheckpointInfo, listCheckpoints } from "./checkpoint-input.node.js";
import { type OpenOptions, openTensors } from "./open-tensors.node.js";
import type { TensorSet } from "./tensor-set.js";
import { decodeValues, isPacked } from "./values.js";

export type FindingKind = "hash" | "structure" | "values" | "tied";

export interface Finding {
  readonly kind: FindingKind;
  readonly file: string;
  readonly tensor?: string;
  readonly message: string;
}

export interface VerifyReport {
  readonly location: string;
  readonly findings: readonly Finding[];
  /** What was looked at. */
  readonly checked: {
    readonly files: number;
    /** Files that were compared with a recorded hash. */
    readonly hashes: number;
    readonly tensors: number;
    readonly sizeBytes: number;
  };
}

export interface VerifyOptions extends OpenOptions {
  /** Look at the values as well (default true). */
  readonly values?: boolean;
  /** Called once the amount of work is known. */
  readonly onStart?: (totalBytes: number) => void;
  readonly onBytes?: (bytes: number, what: string) => void;
}

/** Codes of errors that say that there is nothing to verify. */
const noFindings = new Set([
  "tools.not_found",
  "tools.unknown_form",
  "tools.unreachable",
  "checkpoint.not_found",
  "checkpoint.newer_format",
]);

/** Verifies one input. Errors that mean "nothing there" are thrown; whatever is wrong with what is there is a finding. */
export async function verifyTensors(input: string, options: VerifyOptions = {}): Promise<VerifyReport> {
  let set: TensorSet;
  try {
    set = await openTensors(input, options);
  } catch (error) {
    if (!(error instanceof SpeedtronicError) || noFindings.has(error.code)) throw error;
    return brokenReport(input, error);
  }
  try {
    return await verifySet(set, options);
  } finally {
    await set.close();
  }
}

/** Every checkpoint that `folder` holds, oldest first. */
export async function checkpointFolders(folder: string): Promise<string[]> {
  return (await listCheckpoints(folder)).map(({ path }) => path);
}

async function verifySet(set: TensorSet, options: VerifyOptions): Promise<VerifyReport> {
  const { values = true, onStart, onBytes } = options;
  const fileBytes = set.files.reduce((sum, file) => sum + file.sizeBytes, 0);
  const tensorBytes = [...set.parts.values()].reduce((sum, reader) => sum + dataBytes(reader), 0);
  onStart?.((set.checkpoint === undefined ? 0 : fileBytes) + (values ? tensorBytes : 0));
  const findings: Finding[] = [];
  if (set.checkpoint !== undefined) findings.push(...(await verifyHashes(set.checkpoint, onBytes)));
  findings.push(...verifyAliases(set));
  let tensors = 0;
  for (const [part, reader] of set.parts) {
    tensors += reader.entries.size;
    if (!values) continue;
    const file = set.parts.size > 1 ? `${part}.safetensors` : basename(set.location);
    findings.push(...(await verifyValues(reader, file, onBytes)));
  }
  return {
    location: set.location,
    findings,
    checked: {
      files: set.files.length,
      hashes: set.checkpoint === undefined ? 0 : set.files.length,
      tensors,
      sizeBytes: fileBytes,
    },
  };
}

async function verifyHashes(
  info: CheckpointInfo,
  onBytes: VerifyOptions["onBytes"],
): Promise<readonly Finding[]> {
  const findings: Finding[] = [];
  for (const [file, digest] of Object.entries(info.manifest.files)) {
    try {
      await verifyFiles(info, [file as keyof typeof info.manifest.files]);
    } catch (error) {
      if (!(error instanceof SpeedtronicError)) throw error;
      findings.push({ kind: "hash", file, message: withoutPlace(error.message, join(info.path, file)) });
    }
    onBytes?.(digest.sizeBytes, file);
  }
  return findings;
}

function verifyAliases({ aliases, parts, location }: TensorSet): Finding[] {
  const model = parts.get("model")!;
  return Object.entries(aliases)
    .filter(([, name]) => !model.entries.has(name))
    .map(([alias, name]) => ({
      kind: "tied",
      file: basename(location),
      tensor: alias,
      message: `is tied to "${name}", which the file does not have`,
    }));
}

async function verifyValues(
  reader: TensorReader,
  file: string,
  onBytes: VerifyOptions["onBytes"],
): Promise<Finding[]> {
  const findings: Finding[] = [];
  let [nan, infinite, wrongBools] = [0, 0, 0];
  try {
    for await (const { entry, bytes, isLast } of readPieces(reader)) {
      const { name: tensor, dtype } = entry;
      if (dtype === "BOOL") wrongBools += countAbove(bytes, 1);
      else if (/F[0-9]|C64/.test(dtype) && !isPacked(dtype)) {
        const strange = countStrange(dtype, bytes);
        nan += strange.nan;
        infinite += strange.infinite;
      }
      onBytes?.(bytes.byteLength, tensor);
      if (!isLast) continue;
      const counts = [
        [nan, "NaN"],
        [infinite, infinite === 1 ? "infinite value" : "infinite values"],
        [wrongBools, wrongBools === 1 ? "byte that is neither 0 nor 1" : "bytes that are neither 0 nor 1"],
      ] as const;
      const found = counts.filter(([count]) => count > 0).map(([count, what]) => `${count} ${what}`);
      if (found.length > 0) findings.push({ kind: "values", file, tensor, message: found.join(", ") });
      [nan, infinite, wrongBools] = [0, 0, 0];
    }
  } catch (error) {
    if (!(error instanceof SpeedtronicError)) throw error;
    findings.push({ kind: "structure", file, message: error.message });
  }
  return findings;
}

/** Bits of the exponent: all set for NaN and infinities, and for nothing else. */
const exponents: Readonly<Partial<Record<SafetensorsDtype, number>>> = {
  F32: 0x7f800000,
  C64: 0x7f800000,
  BF16: 0x7f80,
  F16: 0x7c00,
};

function countStrange(dtype: SafetensorsDtype, bytes: Uint8Array): { nan: number; infinite: number } {
  const exponent = exponents[dtype];
  // The common case, all finite, without decoding.
  if (exponent !== undefined && !hasExponent(bytes, exponent)) return { nan: 0, infinite: 0 };
  const values = decodeValues(dtype, bytes);
  let [nan, infinite] = [0, 0];
  for (let i = 0; i < values.length; i++) {
    const value = values[i]!;
    if (Number.isNaN(value)) nan++;
    else if (value - value !== 0) infinite++;
  }
  return { nan, infinite };
}

function hasExponent(bytes: Uint8Array, exponent: number): boolean {
  const { buffer, byteOffset, byteLength } = bytes;
  const words =
    exponent > 0xffff
      ? new Uint32Array(buffer, byteOffset, byteLength / 4)
      : new Uint16Array(buffer, byteOffset, byteLength / 2);
  for (let i = 0; i < words.length; i++) if ((words[i]! & exponent) === exponent) return true;
  return false;
}

function countAbove(bytes: Uint8Array, limit: number): number {
  let count = 0;
  for (let i = 0; i < bytes.length; i++) if (bytes[i]! > limit) count++;
  return count;
}

const dataBytes = (reader: TensorReader): number =>
  [...reader.entries.values()].reduce((sum, { sizeBytes }) => sum + sizeBytes, 0);

function brokenReport(input: string, error: SpeedtronicError): VerifyReport {
  const file = typeof error.details.file === "string" ? error.details.file : input;
  const message = withoutPlace(error.message, file);
  const findings: Finding[] = [{ kind: "structure", file: basename(file), message }];
  return { location: input, findings, checked: { files: 1, hashes: 0, tensors: 0, sizeBytes: 0 } };
}

/** The place stands beside the message already. */
function withoutPlace(message: string, place: string): string {
  return message.startsWith(`${place}: `) ? message.slice(place.length + 2) : message;
}
