// Node only. Tokenises what a configuration names into a folder that the user names, for `speedtronic data prepare`.
// Training does the same by itself, into its cache; this is for data that is prepared once and taken to other machines.

import { ConfigError } from "../../util/errors.js";
import { type BuildDataloaderOptions, defaultTokenizer } from "../build-dataloader.js";
import { resolveDataOptions } from "../options.js";
import { BadRecords } from "../sources/bad-records.js";
import { openDocuments, type SourceSpec } from "../sources/open-documents.js";
import { encoderOf } from "./encoder.js";
import { type Prepared, type PrepareOptions, prepareCorpus } from "./prepare-corpus.js";

export interface PrepareSourcesOptions
  extends Pick<BuildDataloaderOptions, "config" | "tokenizer" | "endOfText" | "remote">,
    Pick<PrepareOptions, "directory" | "workers" | "onProgress" | "tokensPerShard"> {}

/** Throws ConfigError for nothing to prepare and for weights; otherwise as {@link prepareCorpus}. */
export async function prepareSources(options: PrepareSourcesOptions): Promise<Prepared> {
  const { tokenizer, endOfText = null, remote, ...rest } = options;
  const config = resolveDataOptions(options.config);
  const { textPath, sources, badRecordLimit, maxTokens } = config;
  const text = { format: "text", textField: "text", template: null, separator: null, weight: null } as const;
  const specs = textPath === undefined ? sources : [{ ...text, paths: [textPath] }];
  const problem =
    specs.length === 0
      ? "there is nothing to prepare: neither data.sources nor data.text_path is set"
      : specs.some(({ weight }) => weight !== null)
        ? "data.sources have weights, and a mixture is made while training; prepare each source by itself, then mix the folders"
        : specs.some(({ format }) => format === "prepared")
          ? "data.sources are prepared already"
          : undefined;
  if (problem !== undefined) throw new ConfigError(`${problem}.`, { code: "config.nothing_to_prepare" });
  const bad = new BadRecords(Number.POSITIVE_INFINITY);
  const source = await openDocuments({
    specs: specs as readonly SourceSpec[],
    badRecordLimit,
    remote,
    onBadRecord: (record) => bad.add(record),
  });
  const encoder = encoderOf(tokenizer ?? defaultTokenizer(config), endOfText);
  return prepareCorpus({ ...rest, source, encoder, maxTokens, badRecords: () => bad });
}
