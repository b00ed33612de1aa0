// The graphs that generation runs, each compiled when first needed: a whole window at one of a few lengths, and
// one cached step that serves every position.

import {
  allocate,
  type Backend,
  type Executable,
  type Feeds,
  gather,
  input,
  type Parameter,
  reshape,
  type Tensor,
  type TensorData,
  toGraph,
  withTrace,
} from "../../tensor/index.js";
import { invariant, ModelError } from "../../util/errors.js";
import { type IncrementalModel, isIncremental, type KeyValue, type LanguageModel } from "../contract.js";

/** Keys and values of one layer on the host, [blockSize, 1, heads, head width] each. */
export interface HostCache {
  readonly key: Float32Array;
  readonly value: Float32Array;
}

/** A compiled graph that finds the weights by itself. */
type Step = Pick<Executable, "run" | "close">;

/** Keeps weights apart from the inputs below, whatever the model calls them. */
export const WEIGHT_PREFIX = "weights.";

const SHORTEST_WINDOW = 16;

/** Few lengths, so that few graphs are compiled: the next power of two, at most the model's context. */
function paddedLength(length: number, blockSize: number): number {
  let padded = SHORTEST_WINDOW;
  while (padded < length) padded *= 2;
  return Math.min(padded, blockSize);
}

export class GenerationSteps {
  readonly #model: LanguageModel;
  readonly #backend: Backend;
  readonly #parameters: ReadonlyMap<string, Parameter>;
  readonly #windows = new Map<number, Promise<Step>>();
  readonly #prefills = new Map<number, Promise<Step>>();
  #decode: Promise<Step> | undefined;
  #isClosed = false;

  /** `feedsWeights` false: the backend holds the weights itself. */
  constructor(
    model: LanguageModel,
    backend: Backend,
    private readonly feedsWeights = true,
  ) {
    this.#model = model;
    this.#backend = backend;
    this.#parameters = model.namedParameters();
  }

  /** Logits [V] after the last of `ids`, everything computed anew. */
  async window(ids: ArrayLike<number>): Promise<Float32Array> {
    this.requireOpen();
    const padded = paddedLength(ids.length, this.#model.blockSize);
    const step = await remember(this.#windows, padded, () => this.#compile(() => this.#traceWindow(padded)));
    return this.#logits(await step.run(windowFeeds(ids, padded)));
  }

  /** As {@link window}; the keys and values go into `cache`. */
  async prefill(ids: ArrayLike<number>, cache: readonly HostCache[]): Promise<Float32Array> {
    this.requireOpen();
    const padded = paddedLength(ids.length, this.#model.blockSize);
    const step = await remember(this.#prefills, padded, () =>
      this.#compile(() => this.#tracePrefill(padded)),
    );
    const results = await step.run(windowFeeds(ids, padded));
    this.#store(results, cache, 0, ids.length);
    return this.#logits(results);
  }

  /** Logits [V] after `id` at `position`, from a cache of the positions before; `id`'s own rows are added. */
  async decode(id: number, position: number, cache: readonly HostCache[]): Promise<Float32Array> {
    this.requireOpen();
    this.#decode ??= this.#compile(() => this.#traceDecode());
    const step = await this.#decode;
    const feeds: Record<string, TensorData> = {
      input_ids: { dtype: "int32", shape: [1, 1], data: Int32Array.of(id) },
      position: { dtype: "int32", shape: [1], data: Int32Array.of(position) },
    };
    const shape = this.#cacheShape();
    for (const [layer, { key, value }] of cache.entries()) {
      feeds[`cache.key.${layer}`] = { dtype: "float32", shape, data: key };
      feeds[`cache.value.${layer}`] = { dtype: "float32", shape, data: value };
    }
    const results = await step.run(feeds);
    this.#store(results, cache, position, 1);
    return this.#logits(results);
  }

  newCache(): HostCache[] {
    const size = this.#cacheShape().reduce((product, extent) => product * extent, 1);
    return Array.from({ length: this.#incremental().cacheLayout.layers }, () => ({
      key: allocate("float32", size),
      value: allocate("float32", size),
    }));
  }

  /** Throws ModelError after {@link close}. */
  requireOpen(): void {
    if (this.#isClosed)
      throw new ModelError("this generator is closed: make a new one to generate again", {
        code: "generate.closed",
      });
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    const open = [
      ...this.#windows.values(),
      ...this.#prefills.values(),
      ...(this.#decode ? [this.#decode] : []),
    ];
    this.#windows.clear();
    this.#prefills.clear();
    this.#decode = undefined;
    // One that failed to compile told its caller so, and holds nothing.
    for (const result of await Promise.allSettled(open))
      if (result.status === "fulfilled") await result.value.close();
  }

  #traceWindow(length: number): Record<string, Tensor> {
    const model = this.#model;
    const { input_ids, last } = windowInputs(length);
    if (isIncremental(model)) return { logits: model.prefill({ input_ids, last }).logits };
    const { logits } = model.forward({ input_ids });
    if (logits?.rank !== 3 || logits.shape[1] !== length || logits.shape[2] !== model.vocabSize)
      throw new ModelError(
        `to generate, a model must give logits [1, ${length}, ${model.vocabSize}], got ${logits ? `[${logits.shape.join(", ")}]` : "none"}`,
        { code: "generate.no_logits" },
      );
    return { logits: gather(reshape(logits, [length, model.vocabSize]), last, 0) };
  }

  #tracePrefill(length: number): Record<string, Tensor> {
    const { logits, keyValues } = this.#incremental().prefill(windowInputs(length));
    return { logits, ...namedKeyValues(keyValues) };
  }

  #traceDecode(): Record<string, Tensor> {
    const model = this.#incremental();
    const shape = this.#cacheShape();
    const cache = Array.from({ length: model.cacheLayout.layers }, (_, layer) => ({
      key: input(`cache.key.${layer}`, shape, "float32"),
      value: input(`cache.value.${layer}`, shape, "float32"),
    }));
    const { logits, keyValues } = model.decode({
      input_ids: input("input_ids", [1, 1], "int32"),
      position: input("position", [1], "int32"),
      cache,
    });
    return { logits, ...namedKeyValues(keyValues) };
  }

  async #compile(trace: () => Record<string, Tensor>): Promise<Step> {
    const names = new Map<Tensor, string>();
    for (const [name, parameter] of this.#parameters) names.set(parameter, WEIGHT_PREFIX + name);
    const graph = toGraph(withTrace({ training: false }, trace), (leaf) => names.get(leaf));
    const used = new Set(graph.inputs.map(({ name }) => name));
    const weights = [...this.#parameters]
      .map(([name, parameter]) => ({ name: WEIGHT_PREFIX + name, parameter }))
      .filter(({ name }) => this.feedsWeights && used.has(name));
    const executable = await this.#backend.compile(graph);
    return {
      run: (feeds) => {
        // Read anew for each run: training may have gone on in between.
        const values = weights.map(({ name, parameter }) => [name, parameter.toData()]);
        return executable.run({ ...feeds, ...Object.fromEntries(values) });
      },
      close: () => executable.close(),
    };
  }

  #store(results: Feeds, cache: readonly HostCache[], position: number, count: number): void {
    const { heads, headWidth } = this.#incremental().cacheLayout;
    const row = heads * headWidth;
    for (const [layer, { key, value }] of cache.entries()) {
      key.set(results[`key.${layer}`]!.data.subarray(0, count * row), position * row);
      value.set(results[`value.${layer}`]!.data.subarray(0, count * row), position * row);
    }
  }

  #logits(results: Feeds): Float32Array {
    const data = results.logits?.data;
    invariant(data instanceof Float32Array, "logits are float32");
    return data;
  }

  #cacheShape(): number[] {
    const { heads, headWidth } = this.#incremental().cacheLayout;
    return [this.#model.blockSize, 1, heads, headWidth];
  }

  #incremental(): IncrementalModel {
    invariant(isIncremental(this.#model), "the cached path runs models that have one");
    return this.#model;
  }
}

function remember<K, V>(table: Map<K, V>, key: K, make: () => V): V {
  const known = table.get(key);
  if (known !== undefined) return known;
  const made = make();
  table.set(key, made);
  return made;
}

function windowInputs(length: number): { input_ids: Tensor; last: Tensor } {
  return { input_ids: input("input_ids", [1, length], "int32"), last: input("last", [1], "int32") };
}

/** Zeros after the ids: a causal model's logits at `last` do not see them. */
function windowFeeds(ids: ArrayLike<number>, padded: number): Feeds {
  const data = new Int32Array(padded);
  data.set(ids);
  return {
    input_ids: { dtype: "int32", shape: [1, padded], data },
    last: { dtype: "int32", shape: [1], data: Int32Array.of(ids.length - 1) },
  };
}

function namedKeyValues(keyValues: readonly KeyValue[]): Record<string, Tensor> {
  return Object.fromEntries(
    keyValues.flatMap(({ key, value }, layer) => [
      [`key.${layer}`, key],
      [`value.${layer}`, value],
    ]),
  );
}
