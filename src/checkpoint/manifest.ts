// The manifest: what a checkpoint folder must contain, where it came from and what it fits. Written last, so a
// folder with a valid one is complete. It carries a checksum of itself; the other files' hashes stand inside.

import { createHash } from "node:crypto";

import { CheckpointError } from "../util/errors.js";
import type { Environment, Fingerprint } from "./content.js";
import type { FileDigest } from "./disk.js";
import { corrupt, errorMessage } from "./failure.js";
import { CONTENT_FILES, type ContentFile } from "./file-names.js";
import { decodeJson, encodeJson } from "./json-values.js";

/**
 * Raised when older releases could no longer read the folder correctly. All smaller numbers stay readable.
 * 1: coordinator state inside trainer.json. 2: in a file of its own; modules.json, validationLoss.
 */
export const FORMAT_VERSION = 2;

/** The checkpoint that this one continues. */
export interface ParentReference {
  readonly runId: string;
  readonly name: string;
  readonly step: number;
}

export interface Manifest {
  readonly formatVersion: number;
  /** Only `training` holds all that a resume needs; `weights` is a model alone. */
  readonly kind: "training" | "weights";
  readonly runId: string;
  readonly step: number;
  /** Counts the saves of one run. Tells which of two folders is the later one, whatever clocks and steps say. */
  readonly sequence: number;
  /** ISO 8601, by the writer's clock: for people. */
  readonly createdAt: string;
  readonly parent: ParentReference | null;
  readonly files: Readonly<Partial<Record<ContentFile, FileDigest>>>;
  /** Tied tensors of `model.safetensors`: name → the name under which the values stand. */
  readonly aliases: Readonly<Record<string, string>>;
  readonly fingerprint: Fingerprint;
  readonly environment: Environment;
  /** Validation loss at this very step; null where none was measured. */
  readonly validationLoss: number | null;
}

export function encodeManifest(manifest: Manifest): string {
  return encodeJson({ ...manifest, checksum: checksumOf(manifest) }, "manifest");
}

/** Parses and checks a manifest. `path` is for the messages. Throws CheckpointError. */
export function parseManifest(text: string, path: string): Manifest {
  const value = parseObject(text, path);
  const version = value.formatVersion;
  if (typeof version === "number" && version > FORMAT_VERSION) throw newerFormat(version, path);
  const { checksum, ...rest } = value;
  if (checksum !== checksumOf(rest)) {
    throw corrupt(
      `${path}: the manifest was changed or damaged after it was written (its checksum is ` +
        `${String(checksum)}, its content gives ${checksumOf(rest)}); use another checkpoint`,
      { path, expected: checksum, found: checksumOf(rest) },
    );
  }
  const upgraded: Record<string, unknown> = { validationLoss: null, ...rest };
  for (const [field, isValid] of Object.entries(fieldRules)) {
    if (!isValid(upgraded[field])) {
      throw corrupt(
        `${path}: field "${field}" of the manifest is missing or not valid; use another checkpoint`,
        {
          path,
          field,
          found: upgraded[field],
        },
      );
    }
  }
  return upgraded as unknown as Manifest;
}

function parseObject(text: string, path: string): Record<string, unknown> {
  let value: unknown;
  try {
    value = decodeJson(text);
  } catch (error) {
    throw corrupt(
      `${path}: the manifest is not valid JSON (${errorMessage(error)}), so it was damaged or cut off; ` +
        "use another checkpoint",
      { path },
      error,
    );
  }
  if (!isRecord(value))
    throw corrupt(`${path}: the manifest is not a JSON object; use another checkpoint`, { path });
  return value;
}

function newerFormat(version: number, path: string): CheckpointError {
  return new CheckpointError(
    `${path}: the checkpoint has format version ${version}, but this release reads versions up to ` +
      `${FORMAT_VERSION}; use the release that wrote it, or a newer one`,
    { code: "checkpoint.newer_format", details: { path, expected: FORMAT_VERSION, found: version } },
  );
}

function checksumOf(content: object): string {
  return createHash("sha256").update(encodeJson(content, "manifest")).digest("hex");
}

// Guards against a writer's mistake, not against damage (the checksum sees to that).
const fieldRules: Readonly<Record<keyof Manifest, (value: unknown) => boolean>> = {
  formatVersion: (value) => Number.isSafeInteger(value) && (value as number) >= 1,
  kind: (value) => value === "training" || value === "weights",
  runId: (value) => typeof value === "string" && value !== "",
  step: isCount,
  sequence: isCount,
  createdAt: (value) => typeof value === "string",
  parent: (value) => value === null || (isRecord(value) && isCount(value.step)),
  files: (value) => isRecord(value) && Object.entries(value).every(isFileEntry),
  aliases: (value) => isRecord(value) && Object.values(value).every((name) => typeof name === "string"),
  fingerprint: (value) =>
    isRecord(value) && ["model", "data", "optimizer"].every((part) => isRecord(value[part])),
  environment: isRecord,
  validationLoss: (value) => value === null || typeof value === "number",
};

function isFileEntry([name, digest]: [string, unknown]): boolean {
  const isKnown = (CONTENT_FILES as readonly string[]).includes(name);
  return isKnown && isRecord(digest) && isCount(digest.sizeBytes) && typeof digest.sha256 === "string";
}

function isCount(value: unknown): boolean {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
