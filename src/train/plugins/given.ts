// What plugins add to the options of a run: hooks, and the dataset and tokenizer that the configuration names and
// somebody registered. What a program hands over itself comes first.

import type { SpeedtronicConfig } from "../../config/schema.js";
import { ByteTokenizer } from "../../data/byte-tokenizer.js";
import type { RecordSample } from "../../data/collate-records.js";
import { registeredDataset, registeredTokenizer } from "../../data/registry.js";
import { openTokenizer } from "../../data/tokenizers/open-tokenizer.js";
import type { Dataset, Tokenizer } from "../../data/types.js";
import type { Hook } from "../../observe/sink.js";
import { DataError } from "../../util/errors.js";
import { foreignError } from "../../util/user-code.js";
import type { LoadedPlugins } from "./load.node.js";

interface Options {
  readonly dataset?: Dataset | Dataset<RecordSample>;
  readonly tokenizer?: Tokenizer;
  readonly loader?: object;
  readonly hooks?: readonly Hook[] | undefined;
}

/** `options` with what `config` names. @throws DataError for a factory that throws or makes something else */
export async function withPlugins<O extends Options>(
  config: SpeedtronicConfig,
  options: O,
  { hooks }: Pick<LoadedPlugins, "hooks">,
): Promise<O> {
  const { data, model } = config;
  const tokenizer = options.tokenizer ?? (await namedTokenizer(config));
  const isOwn = options.dataset !== undefined || options.loader !== undefined || data.text_path !== null;
  const factory = isOwn || data.dataset === null ? undefined : registeredDataset(data.dataset);
  const request = {
    vocabSize: model.vocab_size,
    blockSize: data.block_size,
    seed: data.seed,
    tokenizer: tokenizer ?? new ByteTokenizer(),
  };
  const dataset = factory && (await made(`dataset "${data.dataset}"`, () => factory(request)));
  return {
    ...options,
    ...(tokenizer !== undefined && { tokenizer }),
    ...(dataset !== undefined && { dataset }),
    ...(hooks.length > 0 && { hooks: [...(options.hooks ?? []), ...hooks] }),
  };
}

/** The one that `data.tokenizer` names: registered, or read from its file. */
export async function namedTokenizer({ data, model }: SpeedtronicConfig): Promise<Tokenizer | undefined> {
  const { tokenizer } = data;
  if (tokenizer === null) return undefined;
  const factory = registeredTokenizer(tokenizer);
  if (factory === undefined) return openTokenizer(tokenizer);
  const what = `tokenizer "${tokenizer}"`;
  const found: unknown = await made(what, () => factory({ vocabSize: model.vocab_size }));
  const { encode, decode, vocabSize } = (found ?? {}) as Partial<Tokenizer>;
  if (typeof encode !== "function" || typeof decode !== "function" || !Number.isSafeInteger(vocabSize))
    throw new DataError(`the factory of ${what} must return an object with encode, decode and vocabSize`, {
      code: "data.tokenizer_factory",
      details: { name: tokenizer },
    });
  return found as Tokenizer;
}

async function made<T>(what: string, make: () => T | Promise<T>): Promise<T> {
  try {
    return await make();
  } catch (error) {
    throw foreignError(DataError, "data.factory_failed", `the factory of ${what}`, error);
  }
}

/** What is named under `plugins`, if that is a list of texts; anything else is for the schema to refuse. */
export function pluginsOf(config: { readonly plugins?: unknown }): string[] {
  const { plugins } = config;
  return Array.isArray(plugins)
    ? plugins.filter((plugin) => typeof plugin === "string" && plugin !== "")
    : [];
}
