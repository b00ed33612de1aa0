// Datasets and tokenizers by name, so that a configuration can choose one that a program or plugin brings. One table
// each per process.

import { ConfigError } from "../util/errors.js";
import { type NamedKind, noteName } from "../util/known-names.js";
import type { RecordSample } from "./collate-records.js";
import type { Dataset, Tokenizer } from "./types.js";

/** What a configuration says to those who build samples of their own. */
export interface DatasetRequest {
  readonly vocabSize: number;
  /** Input ids per sample. */
  readonly blockSize: number;
  readonly seed: number;
  /** Of this run: configured, registered, or bytes. */
  readonly tokenizer: Tokenizer;
}

type AnyDataset = Dataset | Dataset<RecordSample>;

/** Samples of any kind: what is no `{ inputIds, labels }` is put together key by key, see `collateRecords`. */
export type DatasetFactory = (request: DatasetRequest) => AnyDataset | Promise<AnyDataset>;

export type TokenizerFactory = (request: { readonly vocabSize: number }) => Tokenizer | Promise<Tokenizer>;

interface Options {
  /** Take the place of one with the same name. */
  readonly replace?: boolean;
}

class Table<F> {
  readonly #factories = new Map<string, F>();

  constructor(private readonly noun: NamedKind) {}

  add(name: string, factory: F, { replace = false }: Options): void {
    const { noun } = this;
    if (typeof name !== "string" || name.trim() === "")
      throw new ConfigError(`a ${noun} needs a name that is not empty`, { code: `data.${noun}_name` });
    if (typeof factory !== "function")
      throw new ConfigError(`the factory of ${noun} "${name}" must be a function, got ${typeof factory}`, {
        code: `data.${noun}_factory`,
        details: { name },
      });
    if (this.#factories.has(name) && !replace)
      throw new ConfigError(
        `a ${noun} named "${name}" is registered already: choose another name, or pass { replace: true }`,
        { code: `data.${noun}_duplicate`, details: { name } },
      );
    this.#factories.set(name, factory);
    noteName(noun, name);
  }

  get(name: string): F | undefined {
    return this.#factories.get(name);
  }

  names(): string[] {
    return [...this.#factories.keys()].sort();
  }
}

const datasets = new Table<DatasetFactory>("dataset");
const tokenizers = new Table<TokenizerFactory>("tokenizer");

/**
 * Makes `factory` available as `data.dataset: <name>`.
 * @throws ConfigError for an empty name, for no function, and for a name that is taken unless `replace` is set.
 */
export function registerDataset(name: string, factory: DatasetFactory, options: Options = {}): void {
  datasets.add(name, factory, options);
}

/**
 * Makes `factory` available as `data.tokenizer: <name>`.
 * @throws ConfigError as {@link registerDataset}
 */
export function registerTokenizer(name: string, factory: TokenizerFactory, options: Options = {}): void {
  tokenizers.add(name, factory, options);
}

export const registeredDataset = (name: string): DatasetFactory | undefined => datasets.get(name);
export const registeredTokenizer = (name: string): TokenizerFactory | undefined => tokenizers.get(name);
export const datasetNames = (): string[] => datasets.names();
export const tokenizerNames = (): string[] => tokenizers.names();
