// What a forward pass may give, brought to one form: a loss that can be weighed, and further numbers to report.
// Whatever could be taken for a loss by mistake is refused instead.

import type { ModelInputs, ModelOutput, TrainableModel } from "../nn/contract.js";
import { crossEntropy } from "../nn/loss.js";
import { mean, reshape, slice, sum, Tensor } from "../tensor/index.js";
import { formatShape } from "../tensor/shape.js";
import { ModelError } from "../util/errors.js";

/** Scalars, of which `loss` stands alone, or `lossSum` and `tokenCount` together. */
export interface ReadOutput {
  readonly loss?: Tensor;
  readonly lossSum?: Tensor;
  readonly tokenCount?: Tensor;
  readonly metrics: Readonly<Record<string, Tensor>>;
}

const forms =
  "a scalar loss, { loss }, { lossSum, tokenCount }, { logits } beside labels, or a list that begins with one of these";

/**
 * Reads `output` of `model` for `inputs`:
 * a scalar is the loss; a record has `loss`, `lossSum` with `tokenCount`, or `logits` for the labels among the inputs;
 * a list begins with a loss or with logits. Further scalars of a record are metrics.
 * @throws ModelError `model.wrong_output`, `model.no_loss`, `model.non_scalar_loss`, `model.loss_shape`
 */
export function readOutput(model: TrainableModel, output: unknown, inputs: ModelInputs): ReadOutput {
  const name = model.constructor.name;
  const fail = (got: string) =>
    new ModelError(
      `${name}.forward must return ${forms}, of tensors of the inputs it was given; it returned ${got}`,
      { code: "model.wrong_output", details: { model: name } },
    );
  if (output instanceof Promise) {
    // Nobody waits for it; its failure must not end the process.
    output.catch(() => undefined);
    throw fail("a Promise: it must not be async");
  }
  if (output instanceof Tensor) return { loss: asLoss(name, "the result", output, undefined), metrics: {} };
  if (Array.isArray(output)) return readList(name, output, inputs, fail);
  if (typeof output !== "object" || output === null) throw fail(String(output));
  return readRecord(name, output as ModelOutput & Record<string, unknown>, inputs);
}

/** The first item counts: a loss, or the logits of a language model. The others are for people who call the model. */
function readList(
  name: string,
  output: readonly unknown[],
  inputs: ModelInputs,
  fail: (got: string) => ModelError,
): ReadOutput {
  const [first] = output;
  if (!(first instanceof Tensor)) throw fail("a list that begins with no tensor");
  if (first.rank === 0) return { loss: first, metrics: {} };
  if (first.rank !== 3)
    return { loss: asLoss(name, "the first item of the list", first, undefined), metrics: {} };
  return { ...lossOfLogits(name, first, inputs), metrics: {} };
}

function readRecord(
  name: string,
  output: ModelOutput & Record<string, unknown>,
  inputs: ModelInputs,
): ReadOutput {
  const { loss, lossSum, tokenCount, logits, metrics = {}, reduction, ...further } = output;
  for (const [key, value] of Object.entries({ loss, lossSum, tokenCount }))
    if (value !== undefined) requireTensor(name, key, value);
  const all: Record<string, Tensor> = { ...metrics };
  // Numbers that stand beside the loss are metrics as well; tensors that are no numbers are nobody's here.
  for (const [key, value] of Object.entries(further))
    if (value instanceof Tensor && value.rank === 0) all[key] = value;
  if (lossSum && tokenCount) return { lossSum, tokenCount, metrics: all };
  if (loss) return { loss: asLoss(name, '"loss"', loss, reduction), metrics: all };
  if (logits instanceof Tensor && inputs.labels)
    return { ...lossOfLogits(name, logits, inputs), metrics: all };
  throw new ModelError(`${name} gave no loss for inputs ${Object.keys(inputs).join(", ")}: return ${forms}`, {
    code: "model.no_loss",
  });
}

function asLoss(name: string, what: string, loss: Tensor, reduction: unknown): Tensor {
  if (loss.rank === 0) return loss;
  if (reduction === "mean") return mean(loss);
  if (reduction === "sum") return sum(loss);
  throw new ModelError(
    reduction === undefined
      ? `${name}: ${what} must be a scalar, got ${formatShape(loss.shape)}: reduce it with sum or mean, or name one with { loss, reduction: "mean" }`
      : `${name}: reduction must be "mean" or "sum", got ${JSON.stringify(reduction)}`,
    { code: "model.non_scalar_loss", details: { shape: loss.shape, reduction } },
  );
}

/**
 * Cross-entropy of logits [B, T, V] with labels [B, T], or [B, T − 1] for all positions but the last, already those
 * that follow; or of [B, C] with labels [B].
 */
function lossOfLogits(
  name: string,
  logits: Tensor,
  { labels }: ModelInputs,
): { readonly lossSum: Tensor; readonly tokenCount: Tensor } {
  const wrong = (): ModelError =>
    new ModelError(
      `${name}: logits ${formatShape(logits.shape)} do not fit ${labels ? `labels ${labels.dtype} ${formatShape(labels.shape)}` : "a batch without labels"}: ` +
        "give [B, T, V] with int32 labels [B, T] or [B, T - 1], [B, C] with labels [B], or a loss of your own",
      { code: "model.loss_shape", details: { logits: logits.shape, labels: labels?.shape } },
    );
  if (labels?.dtype !== "int32" || labels.rank !== logits.rank - 1) throw wrong();
  const [B, T] = logits.shape;
  const [rows, columns] = labels.shape;
  if (rows !== B) throw wrong();
  let used = logits;
  if (logits.rank === 3 && columns === T! - 1) used = slice(logits, 1, 0, T! - 1);
  else if (logits.rank === 3 && columns !== T) throw wrong();
  else if (logits.rank !== 2 && logits.rank !== 3) throw wrong();
  const classes = used.shape.at(-1)!;
  const { lossSum, count } = crossEntropy(reshape(used, [-1, classes]), reshape(labels, [-1]));
  return { lossSum, tokenCount: count };
}

export function requireTensor(model: string, what: string, value: unknown): void {
  if (value instanceof Tensor) return;
  throw new ModelError(
    `${model}: ${what} must be a tensor, got ${typeof value === "object" ? "an object of another kind" : `${typeof value} ${String(value)}`}`,
    { code: "model.wrong_output", details: { name: what } },
  );
}
