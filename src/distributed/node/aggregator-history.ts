// global/history.json: how the versions that are still kept came about, so that anyone can compute them again, and the
// norms that the next master needs for its running median.

import { parseForeignJson } from "../../util/json-depth.js";
import type { RoundDelta } from "../protocol/master-contract.js";
import { WireError } from "../wire/errors.js";
import { encodePythonJson, type JsonValue } from "../wire/python-json.js";

export const HISTORY_PATH = "global/history.json";
const FORMAT = 1;

/** One version, as it was computed. */
export interface PublishedVersion {
  readonly outerStep: number;
  /** Undefined for a version that no round made: the first one, or one taken over from a Python master. */
  readonly parentOuterStep: number | undefined;
  readonly modelFile: string;
  readonly modelSha256: string;
  /** Undefined for zeros. */
  readonly momentumFile: string | undefined;
  readonly momentumSha256: string | undefined;
  readonly lr: number;
  readonly mu: number;
  readonly usesPlainMean: boolean;
  /** In the order of the sum. */
  readonly deltas: readonly RoundDelta[];
}

export interface History {
  /** Oldest first. */
  readonly versions: readonly PublishedVersion[];
  readonly norms: readonly number[];
}

export const EMPTY_HISTORY: History = { versions: [], norms: [] };

export function encodeHistory({ versions, norms }: History): string {
  const document: JsonValue = {
    format: FORMAT,
    norms,
    versions: versions.map((version) => ({
      deltas: version.deltas.map(({ path, nodeId, contentId, sha256, weight }) => ({
        content_id: contentId,
        node_id: nodeId,
        path,
        sha256,
        weight,
      })),
      lr: version.lr,
      model_file: version.modelFile,
      model_sha256: version.modelSha256,
      momentum_file: version.momentumFile ?? null,
      momentum_sha256: version.momentumSha256 ?? null,
      mu: version.mu,
      outer_step: version.outerStep,
      parent_outer_step: version.parentOuterStep ?? null,
      plain_mean: version.usesPlainMean,
    })),
  };
  return `${encodePythonJson(document)}\n`;
}

/** @throws WireError `wire.invalid_record`. */
export function parseHistory(content: Uint8Array): History {
  try {
    const document = object(
      parseForeignJson(new TextDecoder("utf-8", { fatal: true }).decode(content)),
      "it",
    );
    if (document.format !== FORMAT)
      throw new Error(`format is ${JSON.stringify(document.format)}, this program reads ${FORMAT}`);
    return {
      norms: list(document, "norms").map((norm) => finite({ norm }, "norm")),
      versions: list(document, "versions").map((item) => {
        const version = object(item, "a version");
        return {
          outerStep: finite(version, "outer_step"),
          parentOuterStep:
            version.parent_outer_step === null ? undefined : finite(version, "parent_outer_step"),
          modelFile: text(version, "model_file"),
          modelSha256: text(version, "model_sha256"),
          momentumFile: version.momentum_file === null ? undefined : text(version, "momentum_file"),
          momentumSha256: version.momentum_sha256 === null ? undefined : text(version, "momentum_sha256"),
          lr: finite(version, "lr"),
          mu: finite(version, "mu"),
          usesPlainMean: version.plain_mean === true,
          deltas: list(version, "deltas").map((entry) => {
            const delta = object(entry, "a delta");
            return {
              path: text(delta, "path"),
              nodeId: text(delta, "node_id"),
              contentId: text(delta, "content_id"),
              sha256: text(delta, "sha256"),
              weight: finite(delta, "weight"),
            };
          }),
        };
      }),
    };
  } catch (cause) {
    const message = `is not a history of versions: ${(cause as Error).message}`;
    throw new WireError("invalid_record", message, { file: HISTORY_PATH, cause });
  }
}

type Fields = Readonly<Record<string, unknown>>;

function object(value: unknown, what: string): Fields {
  if (typeof value === "object" && value !== null && !Array.isArray(value)) return value as Fields;
  throw new Error(`${what} is no object`);
}

function list(fields: Fields, key: string): readonly unknown[] {
  const value = fields[key];
  if (Array.isArray(value)) return value;
  throw new Error(`${key} is no list`);
}

function text(fields: Fields, key: string): string {
  const value = fields[key];
  if (typeof value === "string") return value;
  throw new Error(`${key} is no text`);
}

function finite(fields: Fields, key: string): number {
  const value = fields[key];
  if (typeof value === "number" && Number.isFinite(value)) return value;
  throw new Error(`${key} is no number`);
}
