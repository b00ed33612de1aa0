// What a model promises to those who train it and generate with it. Types, and the one check that all models
// share. Inputs keep the names that batches use (snake_case).

import type { Tensor } from "../tensor/index.js";
import { ModelError } from "../util/errors.js";
import type { Module } from "./module.js";
import { suggestion } from "./near-miss.js";

/** Tensors by the batch's own keys, such as `input_ids`, `labels`, `attention_mask`. */
export type ModelInputs = Readonly<Record<string, Tensor>>;

/** What a forward pass gives. Whatever nobody asks for is never computed. */
export interface ModelOutput {
  /** Scalar: mean loss over the counted targets; 0 when there is none. Any shape if `reduction` is given. */
  readonly loss?: Tensor;
  /** How a loss that is no scalar becomes one. Without it such a loss is refused. */
  readonly reduction?: "mean" | "sum";
  /** Scalar: loss summed over the counted targets. With `tokenCount` it lets batches be weighed by targets. */
  readonly lossSum?: Tensor;
  /** Floating-point scalar: how many targets count. */
  readonly tokenCount?: Tensor;
  /** For a language model [B, T, V]. */
  readonly logits?: Tensor;
  /** Further scalars to report, as are all scalars beside the names here. */
  readonly metrics?: Readonly<Record<string, Tensor>>;
}

/** Anything the trainer can train. */
export interface TrainableModel extends Module {
  forward(inputs: ModelInputs): ModelOutput;
  /**
   * Asked once, before the first trace, where the configuration wants activations recomputed in the backward pass.
   * How is the model's own affair. Models without it cannot be trained with `gradient_checkpointing: true`.
   */
  setGradientCheckpointing?(enabled: boolean): void;
}

/**
 * A causal model over token ids: takes int32 `input_ids` [B, T] with T ≤ blockSize, gives `logits` [B, T, V].
 * Logits at t must depend on ids 0 … t only.
 */
export interface LanguageModel extends TrainableModel {
  readonly vocabSize: number;
  readonly blockSize: number;
}

/** Keys and values of one layer: [positions, B, heads, head width]. */
export interface KeyValue {
  readonly key: Tensor;
  readonly value: Tensor;
}

export interface IncrementalOutput {
  /** [B, V] at the asked position. */
  readonly logits: Tensor;
  /** Per layer, for the positions that were given. */
  readonly keyValues: readonly KeyValue[];
}

/** A language model that can continue a sequence from the keys and values of the positions before. */
export interface IncrementalModel extends LanguageModel {
  readonly cacheLayout: {
    readonly layers: number;
    /** Key heads. */
    readonly heads: number;
    readonly headWidth: number;
  };
  /** A whole prefix. input_ids: int32 [B, T]; `last`: int32 [1], the position whose logits are wanted. */
  prefill(inputs: { input_ids: Tensor; last: Tensor }): IncrementalOutput;
  /**
   * One more token. input_ids: int32 [B, 1]; `position`: int32 [1]; `cache` per layer [blockSize, B, heads,
   * head width], of which the rows before `position` are read.
   */
  decode(inputs: { input_ids: Tensor; position: Tensor; cache: readonly KeyValue[] }): IncrementalOutput;
}

export function isIncremental(model: LanguageModel): model is IncrementalModel {
  return "prefill" in model && "decode" in model && "cacheLayout" in model;
}

/** Refuses inputs that `model` does not take, and the absence of those that it needs. */
export function checkInputNames(
  model: string,
  inputs: ModelInputs,
  names: { required: readonly string[]; optional?: readonly string[] },
): void {
  const known = [...names.required, ...(names.optional ?? [])];
  for (const name of Object.keys(inputs))
    if (!known.includes(name))
      throw new ModelError(
        `${model} takes no input "${name}"${suggestion(name, known)}; it takes ${known.join(", ")}`,
        { code: "model.unknown_input", details: { model, name, known } },
      );
  for (const name of names.required)
    if (inputs[name] === undefined)
      throw new ModelError(
        `${model} needs the input "${name}"; it was given ${Object.keys(inputs).join(", ") || "none"}`,
        {
          code: "model.missing_input",
          details: { model, name },
        },
      );
}
