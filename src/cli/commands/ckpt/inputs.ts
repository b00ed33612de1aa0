// Options, arguments and small readings that the `ckpt` tools share. Loads nothing heavy.

import { type Command, InvalidArgumentError } from "commander";
import type { TensorReader } from "../../../formats/safetensors/index.js";
import type { TensorSet } from "../../../interchange/tools/tensor-set.js";
import { ConfigError } from "../../../util/errors.js";
import { collect } from "../../command.js";

export interface FilterOptions {
  readonly only?: readonly string[];
  readonly part: string;
}

/** `--only` and `--part`. */
export function addFilterOptions(command: Command): Command {
  return command
    .option(
      "--only <pattern>",
      "tensors whose names match, * is any text; may be given several times",
      collect,
    )
    .option("--part <name>", "of a checkpoint: model, optimizer or all", "model");
}

/** The tensors that the options choose, part by part. @throws ConfigError for a part that is not there. */
export async function chosenParts(
  set: TensorSet,
  { only, part }: FilterOptions,
): Promise<ReadonlyMap<string, TensorReader>> {
  const { filteredReader } = await import("../../../interchange/tools/alias-reader.js");
  const { matchesPattern } = await import("../../../checkpoint/names/index.js");
  const parts = [...set.parts].filter(([name]) => part === "all" || name === part);
  if (parts.length === 0) {
    throw new ConfigError(
      `--part ${part}: ${set.location} has no such part; it has ${[...set.parts.keys()].join(", ")}`,
      { code: "tools.unknown_part", details: { part } },
    );
  }
  if (only === undefined) return new Map(parts);
  const isIncluded = (name: string) => only.some((pattern) => matchesPattern(pattern, name));
  const filtered = parts.map(([name, reader]) => [name, filteredReader(reader, isIncluded)] as const);
  if (filtered.every(([, reader]) => reader.entries.size === 0)) {
    throw new ConfigError(`--only ${only.join(" --only ")}: no tensor of ${set.location} has such a name`, {
      code: "tools.nothing_matches",
      details: { only },
    });
  }
  return new Map(filtered);
}

export interface OutputFlags {
  readonly output: string;
  readonly force?: boolean;
}

/** `--output` and `--force`. */
export function addOutputOptions(command: Command, what: string): Command {
  return command
    .option("-o, --output <path>", `${what} (required)`)
    .option("-f, --force", "replace an output that exists");
}

/** `500MB`, `5GB`, `2GiB`, `1000000`: a number of bytes. */
export function parseSize(text: string): number {
  const match = /^([0-9]+(?:\.[0-9]+)?) ?([kKMGT]?)(i?)B?$/.exec(text.trim());
  if (match === null) throw new InvalidArgumentError("Expected a size such as 500MB, 5GB or 2GiB.");
  const [, number, unit = "", binary] = match;
  const bytes = Number(number) * (binary ? 1024 : 1000) ** " KMGT".indexOf(unit.toUpperCase() || " ");
  if (!(bytes >= 1)) throw new InvalidArgumentError("Expected a size of at least one byte.");
  return Math.floor(bytes);
}

/** A whole number of at least 1, in plain digits. */
export function parseCount(text: string): number {
  const value = /^[0-9]+$/.test(text) ? Number(text) : Number.NaN;
  if (!Number.isSafeInteger(value) || value < 1)
    throw new InvalidArgumentError("Expected a whole number of at least 1.");
  return value;
}

/** A finite number of at least 0. */
export function parseNonNegative(text: string): number {
  const value = text.trim() === "" ? Number.NaN : Number(text);
  if (!Number.isFinite(value) || value < 0)
    throw new InvalidArgumentError("Expected a number of at least 0.");
  return value;
}

/** Dtype names as people write them. */
export function parseDtype(text: string): "F32" | "F16" | "BF16" {
  const known = {
    f32: "F32",
    float32: "F32",
    f16: "F16",
    float16: "F16",
    half: "F16",
    bf16: "BF16",
    bfloat16: "BF16",
  } as const;
  const dtype = Object.hasOwn(known, text.toLowerCase())
    ? known[text.toLowerCase() as keyof typeof known]
    : undefined;
  if (dtype === undefined) throw new InvalidArgumentError("Choose bf16, f16 or f32.");
  return dtype;
}
