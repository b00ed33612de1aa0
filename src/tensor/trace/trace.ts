// From a TypeScript function over tensors to a Graph: the short way for one function with named inputs. Models
// with losses and gradients are traced by the trainer.

import { ModelError } from "../../util/errors.js";
import type { Parameter } from "../parameter.js";
import { input, Tensor, type ValueType } from "../tensor.js";
import { withTrace } from "./context.js";
import { type Graph, toGraph } from "./graph.js";

export interface TraceOptions {
  /** What {@link isTraining} answers inside. Default false. */
  training?: boolean;
  /** Parameters that `fn` may read, by the names under which they are to be fed. */
  parameters?: ReadonlyMap<string, Parameter>;
}

/** Name of the output of a function that returns a single tensor. */
const soleOutput = "output";

/**
 * Calls `fn` once with an input tensor per entry of `inputs`, and records what it returns as a graph: a record
 * gives outputs under its keys, a single tensor the output "output". Inputs that no output depends on are not
 * part of the graph and must not be fed.
 * @throws OperatorError where operands do not fit; ModelError when `fn` returns no tensors, uses a parameter that
 *   is not in `parameters`, or two inputs get one name
 */
export function trace<Name extends string>(
  fn: (inputs: Readonly<Record<Name, Tensor>>) => Tensor | Readonly<Record<string, Tensor>>,
  inputs: Readonly<Record<Name, ValueType>>,
  { training = false, parameters = new Map() }: TraceOptions = {},
): Graph {
  const names = new Map<Tensor, string>([...parameters].map(([name, parameter]) => [parameter, name]));
  const types = Object.entries(inputs) as [Name, ValueType][];
  const tensors = Object.fromEntries(
    types.map(([name, { shape, dtype }]) => [name, input(name, shape, dtype)]),
  ) as Record<Name, Tensor>;
  const result: unknown = withTrace({ training }, () => fn(tensors));
  return toGraph(namedOutputs(result), (leaf) => names.get(leaf));
}

function namedOutputs(result: unknown): Record<string, Tensor> {
  if (result instanceof Tensor) return { [soleOutput]: result };
  const entries = typeof result === "object" && result !== null ? Object.entries(result) : [];
  const wrong = entries.find(([, value]) => !(value instanceof Tensor));
  if (entries.length === 0 || wrong)
    throw new ModelError(
      `a traced function must return a tensor or a record of named tensors (and not a promise), got ${wrong ? `no tensor for "${wrong[0]}"` : "none"}`,
      { code: "trace.result" },
    );
  return Object.fromEntries(entries);
}
