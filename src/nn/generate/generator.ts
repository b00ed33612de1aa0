// Continues a sequence of token ids. Text, tokenizers and checkpoints are none of its business.

import type { Backend } from "../../tensor/index.js";
import { ConfigError, ModelError } from "../../util/errors.js";
import { isIncremental, type LanguageModel } from "../contract.js";
import { resolveSampling, type SamplingOptions, sampleToken } from "./sample.js";
import { GenerationSteps, type HostCache } from "./steps.js";
import { windowStart } from "./window.js";

export interface GenerateOptions extends SamplingOptions {
  /** The sequence to continue; at least one id. */
  ids: ArrayLike<number>;
  maxNewTokens: number;
  /** Called with each new id as soon as it is chosen; generation waits for it. */
  onToken?: (id: number) => void | Promise<void>;
  /** Default true: keep keys and values where the model can. False computes every window anew. */
  cached?: boolean;
  /** Rejects with the signal's reason before the next token. */
  signal?: AbortSignal;
}

export interface GeneratorOptions {
  model: LanguageModel;
  backend: Backend;
  /** Default true. False: the backend holds the weights itself, under the names of the graph's inputs. */
  feedsWeights?: boolean;
}

/**
 * A model ready to generate. Graphs are compiled at first use and kept until {@link close}; weights are read at
 * every token, so one generator can follow a training run.
 */
export class Generator {
  readonly #model: LanguageModel;
  readonly #steps: GenerationSteps;

  constructor({ model, backend, feedsWeights = true }: GeneratorOptions) {
    this.#model = model;
    this.#steps = new GenerationSteps(model, backend, feedsWeights);
  }

  /**
   * The new ids. They are a function of the weights, `ids`, the sampling options and nothing else; continuing
   * from a longer part of the result gives the same rest. Past the model's context the window moves as
   * `windowStart` says.
   * @throws ModelError for no ids or ids outside the vocabulary; ConfigError for options out of range;
   *   ModelError after {@link close}
   */
  async generate(options: GenerateOptions): Promise<Int32Array> {
    this.#steps.requireOpen();
    const { ids, maxNewTokens, onToken, cached = true, signal } = options;
    const sampling = resolveSampling(options);
    if (!Number.isInteger(maxNewTokens) || maxNewTokens < 0)
      throw new ConfigError(`maxNewTokens must be an integer not below 0, got ${maxNewTokens}`, {
        code: "generate.option",
        details: { name: "maxNewTokens", value: maxNewTokens },
      });
    this.#checkIds(ids);

    const sequence = Array.from(ids);
    const nextLogits = cached && isIncremental(this.#model) ? this.#cachedLogits() : this.#windowLogits();
    for (let made = 0; made < maxNewTokens; made++) {
      signal?.throwIfAborted();
      const id = sampleToken(await nextLogits(sequence), sequence.length, sampling);
      sequence.push(id);
      await onToken?.(id);
    }
    return Int32Array.from(sequence.slice(ids.length));
  }

  /** The logits [V] from which the token after `ids` is chosen. */
  async logits(ids: ArrayLike<number>): Promise<Float32Array> {
    this.#steps.requireOpen();
    this.#checkIds(ids);
    return this.#windowLogits()(Array.from(ids));
  }

  /** Frees the compiled graphs; the generator cannot be used afterwards. Closing again does nothing. */
  async close(): Promise<void> {
    await this.#steps.close();
  }

  #windowLogits() {
    return (sequence: readonly number[]): Promise<Float32Array> =>
      this.#steps.window(sequence.slice(windowStart(sequence.length, this.#model.blockSize)));
  }

  /** Logits for a sequence that grows by one token from call to call. */
  #cachedLogits() {
    let cache: HostCache[] | undefined;
    let cachedStart = 0;
    return (sequence: readonly number[]): Promise<Float32Array> => {
      const start = windowStart(sequence.length, this.#model.blockSize);
      if (cache === undefined || start !== cachedStart) {
        cache ??= this.#steps.newCache();
        cachedStart = start;
        return this.#steps.prefill(sequence.slice(start), cache);
      }
      return this.#steps.decode(sequence.at(-1)!, sequence.length - 1 - start, cache);
    };
  }

  #checkIds(ids: ArrayLike<number>): void {
    if (ids.length === 0)
      throw new ModelError("there is nothing to continue: give at least one token id", {
        code: "generate.empty_prompt",
      });
    const { vocabSize } = this.#model;
    const wrong = Array.from(ids).findIndex((id) => !(Number.isInteger(id) && id >= 0 && id < vocabSize));
    if (wrong >= 0)
      throw new ModelError(
        `id ${ids[wrong]} at position ${wrong} is outside the model's vocabulary of ${vocabSize}: is this the right tokenizer?`,
        { code: "generate.id_range", details: { id: ids[wrong], position: wrong, vocabSize } },
      );
  }
}

/** One call of a {@link Generator} that is closed afterwards. */
export async function generate(options: GeneratorOptions & GenerateOptions): Promise<Int32Array> {
  const generator = new Generator(options);
  try {
    return await generator.generate(options);
  } finally {
    await generator.close();
  }
}
