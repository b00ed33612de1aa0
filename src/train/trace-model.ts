// From a model and the types of a batch to the graphs that an engine runs: one that gives gradients, one that
// only gives the loss.

import type { ModelOutput, TrainableModel } from "../nn/contract.js";
import { trainEventDocs } from "../observe/events/train.js";
import { grad } from "../tensor/autodiff/grad.js";
import type { TensorData } from "../tensor/dtype.js";
import { formatShape } from "../tensor/shape.js";
import { input, Tensor } from "../tensor/tensor.js";
import { withTrace } from "../tensor/trace/context.js";
import { type Graph, toGraph } from "../tensor/trace/graph.js";
import { ModelError } from "../util/errors.js";
import { countResult, gradientResult, lossResult, parameterFeed } from "./engine/contract.js";
import { refuseUnreached, unreachedParameters } from "./reachability.js";

/** Keys that every line of metrics begins with. */
const lineKeys: ReadonlySet<string> = new Set(["event", "time", "run_id"]);

/** Shape and dtype of each field of a batch. */
export type BatchTypes = Readonly<Record<string, Pick<TensorData, "shape" | "dtype">>>;

export interface TraceTrainingOptions {
  /** Accept trainable parameters that the loss does not depend on: their gradient is 0. Default false. */
  readonly allowsUnreached?: boolean;
}

/**
 * A graph with the loss, its count of targets, further scalars, and the gradient of every trainable parameter.
 * @throws ModelError when forward gives no usable loss, or one that does not depend on the trainable parameters
 */
export function traceTraining(
  model: TrainableModel,
  batch: BatchTypes,
  { allowsUnreached = false }: TraceTrainingOptions = {},
): Graph {
  return withTrace({ training: true }, () => {
    const results = traceLoss(model, batch);
    const trainable = [...model.namedParameters()].filter(([, parameter]) => parameter.trainable);
    const unreached = unreachedParameters(model.constructor.name, results[lossResult]!, trainable);
    if (!allowsUnreached) refuseUnreached(model.constructor.name, unreached);
    const grads = grad(
      results[lossResult]!,
      trainable.map(([, parameter]) => parameter),
    );
    const gradients = trainable.map(([name], i) => [gradientResult(name), grads[i]!] as const);
    return namedGraph(model, { ...results, ...Object.fromEntries(gradients) });
  });
}

/** A graph with the loss and its count of targets, dropout off. */
export function traceEvaluation(model: TrainableModel, batch: BatchTypes): Graph {
  return withTrace({ training: false }, () => namedGraph(model, traceLoss(model, batch)));
}

/** `outputs` as a graph whose parameter feeds have the engine's names. */
export function namedGraph(model: TrainableModel, outputs: Readonly<Record<string, Tensor>>): Graph {
  const names = new Map<Tensor, string>(
    [...model.namedParameters()].map(([name, parameter]) => [parameter, name]),
  );
  return toGraph(outputs, (leaf) => {
    const name = names.get(leaf);
    return name === undefined ? undefined : parameterFeed(name);
  });
}

/** Prefers the summed loss with its count: batches can then be weighed by their targets. */
function traceLoss(model: TrainableModel, batch: BatchTypes): Record<string, Tensor> {
  const inputs = Object.fromEntries(
    Object.entries(batch).map(([name, t]) => [name, input(name, t.shape, t.dtype)]),
  );
  const { lossSum, tokenCount, loss, metrics = {} } = checkedOutput(model, model.forward(inputs));
  const main =
    lossSum && tokenCount
      ? { [lossResult]: lossSum, [countResult]: tokenCount }
      : loss && { [lossResult]: loss };
  if (!main)
    throw new ModelError(
      `${model.constructor.name} gave no loss for inputs ${Object.keys(batch).join(", ")}: return { loss } or { lossSum, tokenCount } from forward`,
      { code: "model.no_loss" },
    );
  for (const name of Object.keys(metrics)) refuseReserved(model, name);
  const results: Record<string, Tensor> = { ...main, ...metrics };
  for (const [name, t] of Object.entries(results)) {
    requireTensor(model, `"${name}"`, t);
    if (t.rank !== 0)
      throw new ModelError(
        `${model.constructor.name}: "${name}" must be a scalar, got ${formatShape(t.shape)}: reduce it with sum or mean`,
        { code: "model.non_scalar_loss", details: { name, shape: t.shape } },
      );
  }
  return results;
}

/** What `forward` gave, if it is a record of tensors: it may come from a program without types. */
function checkedOutput(model: TrainableModel, output: unknown): ModelOutput {
  const name = model.constructor.name;
  const fail = (got: string) =>
    new ModelError(
      `${name}.forward must return { loss } or { lossSum, tokenCount }, tensors of the inputs it was given; it returned ${got}`,
      { code: "model.wrong_output", details: { model: name } },
    );
  if (output instanceof Promise) {
    // Nobody waits for it; its failure must not end the process.
    output.catch(() => undefined);
    throw fail("a Promise: it must not be async");
  }
  if (output instanceof Tensor) throw fail("a tensor alone");
  if (typeof output !== "object" || output === null) throw fail(String(output));
  const { lossSum, tokenCount, loss } = output as ModelOutput;
  for (const [key, value] of Object.entries({ lossSum, tokenCount, loss }))
    if (value !== undefined) requireTensor(model, key, value);
  return output as ModelOutput;
}

function requireTensor(model: TrainableModel, what: string, value: unknown): void {
  if (value instanceof Tensor) return;
  throw new ModelError(
    `${model.constructor.name}: ${what} must be a tensor, got ${typeof value === "object" ? "an object of another kind" : `${typeof value} ${String(value)}`}`,
    { code: "model.wrong_output", details: { name: what } },
  );
}

/** A metric is a result of the graph and a key of the `train_step` event: it must not take the place of another. */
function refuseReserved(model: TrainableModel, name: string): void {
  const isTaken =
    name === lossResult ||
    name === countResult ||
    name.startsWith(gradientResult("")) ||
    lineKeys.has(name) ||
    Object.hasOwn(trainEventDocs.train_step.keys, name);
  if (!isTaken) return;
  throw new ModelError(
    `${model.constructor.name}: a metric cannot be named "${name}", which training reports itself: rename it, such as "my_${name}"`,
    { code: "model.reserved_metric", details: { name } },
  );
}
