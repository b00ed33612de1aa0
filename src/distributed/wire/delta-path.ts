// Where deltas lie in the repository: nodes/<node_id>/delta_<local_step>.safetensors. The path is a delta's identity,
// so that only one spelling of each number is taken: Python's parser also reads "007", "+7" and "1_000", which would
// give two files one identity. Such forms are reported with a reason, never aliased.

import { quote, WireError } from "./errors.js";
import { checkNodeId, peerNodeIdProblem } from "./node-id.js";
import { compareCodePoints } from "./order.js";

/** A delta in canonical form. */
export interface DeltaPath {
  readonly kind: "delta";
  readonly path: string;
  readonly nodeId: string;
  readonly localStep: number;
}

/** Looks like a delta and is not one: to be reported once and skipped. */
export interface OddDeltaPath {
  readonly kind: "odd";
  readonly path: string;
  /** Continues "… is not a delta path: ". */
  readonly reason: string;
}

/** Any other file of the repository. */
export interface OtherPath {
  readonly kind: "other";
  readonly path: string;
}

const FOLDER = "nodes";
const PREFIX = "delta_";
const SUFFIX = ".safetensors";

/** Reads a path of the repository's listing. Never throws; the header of the file is not looked at. */
export function parseDeltaPath(path: string): DeltaPath | OddDeltaPath | OtherPath {
  const parts = path.split("/");
  const fileName = parts.at(-1)!;
  if (parts[0] !== FOLDER || parts.length < 2 || !fileName.startsWith(PREFIX)) return { kind: "other", path };
  const odd = (reason: string): OddDeltaPath => ({ kind: "odd", path, reason });
  if (parts.length !== 3) {
    return odd(`has ${parts.length} parts between slashes, ${FOLDER}/<node_id>/<file> has 3`);
  }
  const nodeId = parts[1]!;
  const idProblem = peerNodeIdProblem(nodeId);
  if (idProblem !== undefined) return odd(`its node id ${idProblem}`);
  if (!fileName.endsWith(SUFFIX)) return odd(`does not end with ${SUFFIX}`);
  const digits = fileName.slice(PREFIX.length, -SUFFIX.length);
  const stepProblem = stepTextProblem(digits);
  if (stepProblem !== undefined) return odd(`its step ${quote(digits)} ${stepProblem}`);
  return { kind: "delta", path, nodeId, localStep: Number(digits) };
}

/**
 * The path of one of our deltas; `parseDeltaPath` gives the same id and step back.
 * @throws WireError `wire.invalid_node_id`, `wire.invalid_path` unless the step is an integer from 0 to 2^53 - 1.
 */
export function deltaPath(nodeId: string, localStep: number): string {
  checkNodeId(nodeId);
  if (!Number.isSafeInteger(localStep) || localStep < 0) {
    throw new WireError("invalid_path", `step ${localStep} of a delta must be an integer from 0 to 2^53 - 1`);
  }
  // `+ 0` turns -0 into 0.
  return `${FOLDER}/${nodeId}/${PREFIX}${localStep + 0}${SUFFIX}`;
}

/** Order in which deltas are added up: node id, step, path. Fixed, since the order decides the last bits of a mean. */
export function compareDeltaPaths(a: DeltaPath, b: DeltaPath): number {
  return (
    compareCodePoints(a.nodeId, b.nodeId) || a.localStep - b.localStep || compareCodePoints(a.path, b.path)
  );
}

function stepTextProblem(text: string): string | undefined {
  if (text === "") return "is empty";
  if (/^[0-9]+$/.test(text)) {
    if (text.length > 1 && text.startsWith("0")) return "has a leading zero";
    return Number.isSafeInteger(Number(text)) ? undefined : "is above 2^53 - 1";
  }
  if (/^[+-]/.test(text)) return "has a sign";
  if (/\s/u.test(text)) return "has a blank";
  if (text.includes("_")) return "has an underscore";
  if (/^\p{Nd}+$/u.test(text)) return "has digits other than 0 to 9";
  return "is not a plain decimal number";
}
