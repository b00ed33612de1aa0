// From a model and the types of a batch to the graphs that an engine runs: one that gives gradients, one that
// only gives the loss.

import type { ModelOutput, TrainableModel } from "../nn/contract.js";
import { grad } from "../tensor/autodiff/grad.js";
import type { TensorData } from "../tensor/dtype.js";
import { formatShape } from "../tensor/shape.js";
import { input, type Tensor } from "../tensor/tensor.js";
import { withTrace } from "../tensor/trace/context.js";
import { type Graph, toGraph } from "../tensor/trace/graph.js";
import { ModelError } from "../util/errors.js";
import { countResult, gradientResult, lossResult, parameterFeed } from "./engine/contract.js";

/** Shape and dtype of each field of a batch. */
export type BatchTypes = Readonly<Record<string, Pick<TensorData, "shape" | "dtype">>>;

/** A graph with the loss, its count of targets, further scalars, and the gradient of every trainable parameter. */
export function traceTraining(model: TrainableModel, batch: BatchTypes): Graph {
  return withTrace({ training: true }, () => {
    const results = traceLoss(model, batch);
    const trainable = [...model.namedParameters()].filter(([, parameter]) => parameter.trainable);
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
  const output: ModelOutput = model.forward(inputs);
  const { lossSum, tokenCount, loss } = output;
  const main =
    lossSum && tokenCount
      ? { [lossResult]: lossSum, [countResult]: tokenCount }
      : loss && { [lossResult]: loss };
  if (!main)
    throw new ModelError(
      `${model.constructor.name} gave no loss for inputs ${Object.keys(batch).join(", ")}: return { loss } or { lossSum, tokenCount } from forward`,
      { code: "model.no_loss" },
    );
  for (const [name, t] of Object.entries({ ...main, ...output.metrics }))
    if (t.rank !== 0)
      throw new ModelError(
        `${model.constructor.name}: "${name}" must be a scalar, got ${formatShape(t.shape)}: reduce it with sum or mean`,
        { code: "model.non_scalar_loss", details: { name, shape: t.shape } },
      );
  return { ...main, ...output.metrics };
}
