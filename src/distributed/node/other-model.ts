// A published version whose tensors are not those of this node's model. No later version of that run will fit either, so
// that a node that finds this out at its start ends there, instead of training for days alone.

import { WireError } from "../wire/index.js";
import { NodeError } from "./errors.js";

export const OTHER_MODEL_ADVICE = "Use the configuration of that run, or another repository";

const PROBLEMS = new Set(["wire.key_mismatch", "wire.shape_mismatch", "wire.unsupported_dtype"]);

/** The error that says so, if `error` means it. */
export function asOtherModel(error: unknown, outerStep?: number): NodeError | undefined {
  if (error instanceof NodeError) return error.problem === "other_model" ? error : undefined;
  if (!(error instanceof WireError) || !PROBLEMS.has(error.code)) return undefined;
  return new NodeError(
    "other_model",
    `version ${outerStep} is of another model: ${error.message}. ${OTHER_MODEL_ADVICE}`,
    { details: error.details, cause: error },
  );
}
