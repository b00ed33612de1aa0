// From a model and the types of a batch to the graphs that an engine runs: one that gives gradients, one that
// only gives the loss.

import type { TrainableModel } from "../nn/contract.js";
import { trainEventDocs } from "../observe/events/train.js";
import { grad } from "../tensor/autodiff/grad.js";
import type { TensorData } from "../tensor/dtype.js";
import { formatShape } from "../tensor/shape.js";
import { input, type Tensor } from "../tensor/tensor.js";
import { type LiveValues, withTrace } from "../tensor/trace/context.js";
import { type Graph, toGraph } from "../tensor/trace/graph.js";
import { ModelError } from "../util/errors.js";
import { bufferValue, countResult, gradientResult, lossResult, parameterFeed } from "./engine/contract.js";
import { readOutput, requireTensor } from "./model-output.js";
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
  const live = liveValuesOf(model);
  return withTrace({ training: true, live }, () => {
    const results = traceLoss(model, batch);
    const trainable = [...model.namedParameters()].filter(([, parameter]) => parameter.trainable);
    const unreached = unreachedParameters(model.constructor.name, results[lossResult]!, trainable);
    if (!allowsUnreached) refuseUnreached(model.constructor.name, unreached);
    const grads = grad(
      results[lossResult]!,
      trainable.map(([, parameter]) => parameter),
    );
    const gradients = trainable.map(([name], i) => [gradientResult(name), grads[i]!] as const);
    const kept = Object.fromEntries(live.updates);
    return namedGraph(model, { ...results, ...Object.fromEntries(gradients), ...kept });
  });
}

/** A graph with the loss and its count of targets, dropout off. */
export function traceEvaluation(model: TrainableModel, batch: BatchTypes): Graph {
  return withTrace({ training: false, live: liveValuesOf(model) }, () =>
    namedGraph(model, traceLoss(model, batch)),
  );
}

/** Live buffers under the names of their feeds and results. */
function liveValuesOf(model: TrainableModel): LiveValues {
  const names = new Map<object, string>(
    [...model.namedBuffers()]
      .filter(([, { live }]) => live)
      .map(([name, buffer]) => [buffer, bufferValue(name)]),
  );
  return { nameOf: (owner) => names.get(owner), updates: new Map() };
}

/** The present values of the live buffers that `graph` reads. */
export function bufferFeeds(model: TrainableModel, graph: Graph): Record<string, TensorData> {
  const names = new Set(
    graph.inputs.map(({ name }) => name).filter((name) => name.startsWith(bufferValue(""))),
  );
  // Called for every micro-batch, and most models have none.
  if (names.size === 0) return {};
  return Object.fromEntries(
    [...model.namedBuffers()]
      .map(([name, { value }]) => [bufferValue(name), value] as const)
      .filter(([name]) => names.has(name)),
  );
}

/** Takes over what an update made of live buffers. */
export function keepBuffers(model: TrainableModel, kept: Readonly<Record<string, TensorData>>): void {
  for (const [name, { value }] of model.namedBuffers()) {
    const next = kept[bufferValue(name)];
    if (next) value.data.set(next.data);
  }
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
  const isList = Object.keys(inputs).every((name, i) => name === String(i));
  const output: unknown = isList ? callWithList(model, Object.values(inputs)) : model.forward(inputs);
  // The second item of a list is what the first one is to lead to.
  const known = isList && inputs["1"] ? { ...inputs, labels: inputs["1"] } : inputs;
  const { lossSum, tokenCount, loss, metrics } = readOutput(model, output, known);
  const main =
    lossSum && tokenCount ? { [lossResult]: lossSum, [countResult]: tokenCount } : { [lossResult]: loss! };
  for (const name of Object.keys(metrics)) refuseReserved(model, name);
  const results: Record<string, Tensor> = { ...main, ...metrics };
  for (const [name, t] of Object.entries(results)) {
    requireTensor(model.constructor.name, `"${name}"`, t);
    if (t.rank !== 0)
      throw new ModelError(
        `${model.constructor.name}: "${name}" must be a scalar, got ${formatShape(t.shape)}: reduce it with sum or mean`,
        { code: "model.non_scalar_loss", details: { name, shape: t.shape } },
      );
  }
  return results;
}

/** A batch that was a list reaches the model as its arguments, in the list's order. */
function callWithList(model: TrainableModel, tensors: readonly Tensor[]): unknown {
  return (model.forward as unknown as (...tensors: readonly Tensor[]) => unknown).apply(
    model,
    tensors as Tensor[],
  );
}

/** A metric is a result of the graph and a key of the `train_step` event: it must not take the place of another. */
function refuseReserved(model: TrainableModel, name: string): void {
  const isTaken =
    name === lossResult ||
    name === countResult ||
    name.startsWith(gradientResult("")) ||
    name.startsWith(bufferValue("")) ||
    lineKeys.has(name) ||
    Object.hasOwn(trainEventDocs.train_step.keys, name);
  if (!isTaken) return;
  throw new ModelError(
    `${model.constructor.name}: a metric cannot be named "${name}", which training reports itself: rename it, such as "my_${name}"`,
    { code: "model.reserved_metric", details: { name } },
  );
}
