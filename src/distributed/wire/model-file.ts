// The pointer from the version record to the weights. A writer of the repository chooses it, so it is checked before
// it becomes a request or a file name.

import { quote, WireError } from "./errors.js";

/** Where the newest weights always are, whatever else the record points to. */
export const LATEST_MODEL_FILE = "global/latest.safetensors";

const PATTERN = /^global(?:\/[A-Za-z0-9_][A-Za-z0-9._-]*)+\.safetensors$/;
const MAX_LENGTH = 255;

/** Path of the immutable weights of one version. */
export function versionedModelFile(outerStep: number): string {
  return `global/step_${String(outerStep).padStart(6, "0")}.safetensors`;
}

/** Why `path` is no file of weights under `global/`; undefined when it is one. */
export function modelFileProblem(path: string): string | undefined {
  if (path.length > MAX_LENGTH) return `has ${path.length} characters, at most ${MAX_LENGTH} are allowed`;
  if (path.includes("..")) return 'has ".."';
  if (!path.startsWith("global/")) return "lies outside of global/";
  if (!path.endsWith(".safetensors")) return "does not end with .safetensors";
  if (PATTERN.test(path)) return undefined;
  return 'must be "global/" and names of letters, digits, ".", "_" and "-"';
}

/** @throws WireError `wire.invalid_model_file` unless {@link modelFileProblem} has nothing to say. */
export function checkModelFile(path: string, file?: string, key = "model_file"): string {
  const problem = modelFileProblem(path);
  if (problem === undefined) return path;
  const message = `${key} ${quote(path)} ${problem}; this version is not followed`;
  throw new WireError("invalid_model_file", message, { file });
}
