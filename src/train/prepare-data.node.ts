// Prepares the data that a configuration names, with the tokenizer that it names, as training would.

import type { SpeedtronicConfig } from "../config/schema.js";
import type { Prepared } from "../data/prepared/prepare-corpus.js";
import { type PrepareSourcesOptions, prepareSources } from "../data/prepared/prepare-sources.js";
import { dataloaderOptions, type GivenData } from "./from-config.js";
import { withPlugins } from "./plugins/given.js";

/** Errors of {@link prepareSources} pass through. Plugins have to be loaded. */
export async function prepareData(
  config: SpeedtronicConfig,
  options: Pick<PrepareSourcesOptions, "directory" | "workers" | "onProgress">,
): Promise<Prepared> {
  // Samples that somebody registered are no text, and are not made for this.
  const textOnly = { ...config, data: { ...config.data, dataset: null } };
  const given = await withPlugins<GivenData>(textOnly, {}, { hooks: [] });
  const { config: data, tokenizer, endOfText, remote } = dataloaderOptions(textOnly, given);
  return prepareSources({ ...options, config: data, tokenizer, endOfText, remote });
}
