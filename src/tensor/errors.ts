// Errors raised while a graph is recorded: they name the operator, the shapes or dtypes, and the line of
// the model that asked for it.

import { ModelError } from "../util/errors.js";
import { formatShape, isShape, type Shape } from "./shape.js";
import type { Tensor } from "./tensor.js";

export class OperatorError extends ModelError {}

/** Builds the error for operator `op`; `problem` says what does not fit, in words that name the values. */
export function operatorError(op: string, problem: string, inputs: readonly Tensor[] = []): OperatorError {
  const operands = inputs.map((t) => `${t.dtype}${formatShape(t.shape)}`).join(", ");
  const line = callerLine();
  return new OperatorError(
    `${op}: ${problem}${operands ? ` (inputs: ${operands})` : ""}${line ? ` at ${line}` : ""}`,
    {
      code: "tensor.operator",
      details: { op, inputs: inputs.map((t) => ({ shape: t.shape, dtype: t.dtype })), line },
    },
  );
}

/** Refuses a shape with an extent that is no count. */
export function requireExtents(op: string, shape: Shape, inputs: readonly Tensor[] = []): void {
  if (!isShape(shape))
    throw operatorError(op, `every extent must be an integer not below 0, got ${formatShape(shape)}`, inputs);
}

/** The nearest stack frame outside this library's own tensor and layer code; inside it if there is no other. */
function callerLine(): string | undefined {
  const frames = stackFrames();
  const own = libraryRoot();
  const outside = (frame: string, folders: readonly string[]) =>
    !folders.some((folder) => frame.includes(`${own}${folder}/`)) &&
    !frame.includes("node_modules/") &&
    !frame.includes("node:");
  const frame =
    frames.find((line) => outside(line, ["tensor", "nn", "train", "util", "cli", "data"])) ??
    frames.find((line) => outside(line, ["tensor"]));
  return frame?.match(/\(?((?:file:\/\/)?[^\s()]+:\d+:\d+)\)?$/)?.[1]?.replace("file://", "");
}

/** Frames with a place in a file (natives such as Array.map have none), deep enough to leave this library. */
function stackFrames(): string[] {
  const limit = Error.stackTraceLimit;
  Error.stackTraceLimit = 64;
  const { stack = "" } = new Error();
  Error.stackTraceLimit = limit;
  return stack.split("\n").filter((line) => /^\s+at .*:\d+:\d+\)?$/.test(line));
}

/** `…/src/` or `…/dist/`, as it appears in stack frames. */
function libraryRoot(): string {
  return new URL("../", import.meta.url).pathname;
}
