// global/step_count.json: which version the global weights are, and where they lie. Written with the bytes that Python
// would write; read as Python reads it, except that what Python would follow blindly is refused.

import { parseForeignJson } from "../../util/json-depth.js";
import { WireError } from "./errors.js";
import { checkModelFile, LATEST_MODEL_FILE } from "./model-file.js";
import { parsePythonInteger } from "./python-integer.js";
import { encodePythonJson, type JsonValue } from "./python-json.js";

export const VERSION_RECORD_PATH = "global/step_count.json";
export const ALGORITHM = "dumb_diloco";
export const OPTIMIZER = "nesterov_sgd";

/** The version record. */
export interface VersionRecord {
  /** Number of the version: 0 for the first publication, one more per outer round. */
  readonly outerStep: number;
  /** Path of the weights in the repository, under `global/`. */
  readonly modelFile: string;
  /** Time of publication as the writer put it; nobody decides by it. */
  readonly updatedAt: string;
  readonly algorithm?: string | undefined;
  readonly optimizer?: string | undefined;
  /** Set in the first version of a run. */
  readonly isBootstrap: boolean;
  /** Every other key of the document, in snake_case; Python peers ignore them. */
  readonly extra: Readonly<Record<string, JsonValue>>;
}

const KNOWN_KEYS = new Set(["algorithm", "bootstrap", "model_file", "optimizer", "outer_step", "updated_at"]);

/**
 * The document's text: keys sorted, two blanks of indent, ASCII only, one newline at the end.
 * @throws WireError `wire.invalid_record`, `wire.invalid_model_file`.
 */
export function encodeVersionRecord(record: VersionRecord): string {
  const { outerStep, modelFile, updatedAt, algorithm, optimizer, isBootstrap, extra } = record;
  if (!Number.isSafeInteger(outerStep) || outerStep < 0) {
    throw new WireError("invalid_record", `outer_step ${outerStep} must be an integer from 0 to 2^53 - 1`);
  }
  checkModelFile(modelFile);
  const taken = Object.keys(extra).find((key) => KNOWN_KEYS.has(key));
  if (taken !== undefined) throw new WireError("invalid_record", `extra key ${taken} has a field of its own`);
  const text = encodePythonJson({
    ...extra,
    ...(algorithm === undefined ? {} : { algorithm }),
    // A text, as Python writes it.
    ...(isBootstrap ? { bootstrap: "true" } : {}),
    model_file: modelFile,
    ...(optimizer === undefined ? {} : { optimizer }),
    outer_step: outerStep,
    updated_at: updatedAt,
  });
  return `${text}\n`;
}

/**
 * Reads the document. Missing keys have Python's defaults; `outer_step` may be a number (its fraction is cut), a text
 * or a boolean, or stand under its old name `step`.
 * @throws WireError `wire.invalid_record`, `wire.invalid_model_file`.
 */
export function parseVersionRecord(content: string | Uint8Array, file = VERSION_RECORD_PATH): VersionRecord {
  const document = parseObject(content, file);
  const own = (key: string) => (Object.hasOwn(document, key) ? document[key] : undefined);
  const text = (key: string) => {
    const value = own(key);
    return typeof value === "string" ? value : undefined;
  };
  const pointer = own("model_file");
  if (pointer !== undefined && typeof pointer !== "string") {
    throw new WireError("invalid_model_file", `model_file must be a text, is ${JSON.stringify(pointer)}`, {
      file,
    });
  }
  const bootstrap = own("bootstrap");
  return {
    outerStep: readOuterStep(
      own("outer_step") ?? (Object.hasOwn(document, "outer_step") ? null : own("step")),
      file,
    ),
    modelFile: checkModelFile(pointer ?? LATEST_MODEL_FILE, file),
    updatedAt: text("updated_at") ?? "",
    algorithm: text("algorithm"),
    optimizer: text("optimizer"),
    isBootstrap: bootstrap === "true" || bootstrap === true,
    extra: Object.fromEntries(Object.entries(document).filter(([key]) => !KNOWN_KEYS.has(key))),
  };
}

/** A time as Python writes it: UTC with `+00:00`, six digits of the second's fraction, or none when it is zero. */
export function formatUpdatedAt(timeMs: number): string {
  return new Date(timeMs)
    .toISOString()
    .replace(/\.([0-9]{3})Z$/, (_, ms: string) => (ms === "000" ? "+00:00" : `.${ms}000+00:00`));
}

function parseObject(content: string | Uint8Array, file: string): { readonly [key: string]: JsonValue } {
  let value: unknown;
  try {
    const text =
      typeof content === "string" ? content : new TextDecoder("utf-8", { fatal: true }).decode(content);
    value = parseForeignJson(text);
  } catch (cause) {
    throw new WireError("invalid_record", `is not JSON: ${(cause as Error).message}`, { file, cause });
  }
  if (typeof value === "object" && value !== null && !Array.isArray(value)) {
    return value as { readonly [key: string]: JsonValue };
  }
  const kind = value === null ? "null" : Array.isArray(value) ? "a list" : `a ${typeof value}`;
  throw new WireError("invalid_record", `must be a JSON object, is ${kind}`, { file });
}

function readOuterStep(value: JsonValue | undefined, file: string): number {
  let step: number | undefined;
  if (value === undefined) step = 0;
  else if (typeof value === "number") step = Math.trunc(value) + 0;
  else if (typeof value === "boolean") step = Number(value);
  else if (typeof value === "string") step = parsePythonInteger(value);
  if (step !== undefined && Number.isSafeInteger(step) && step >= 0) return step;
  const shown = JSON.stringify(value).slice(0, 120);
  const message = `outer_step must be an integer from 0 to 2^53 - 1, is ${shown}`;
  throw new WireError("invalid_record", message, { file });
}
