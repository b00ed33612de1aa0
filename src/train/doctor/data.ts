// The doctor's look at the data: opened as training opens them, one micro-batch read.

import { accumulationSteps, effectiveMaxSteps } from "../../config/derived.js";
import type { SpeedtronicConfig } from "../../config/schema.js";
import { buildDataloader } from "../../data/build-dataloader.js";
import type { LoadedBatch } from "../../data/types.js";
import { formatCount } from "../../observe/number-text.js";
import { dataloaderOptions, type GivenData } from "../from-config.js";
import { withPlugins } from "../plugins/given.js";
import type { Findings } from "./finding.js";

/** Ids that text has without a tokenizer. */
const byteIds = 256;

/** @throws what opening or reading throws: DataError, ConfigError */
export async function checkData(
  config: SpeedtronicConfig,
  findings: Findings,
): Promise<{ readonly detail: string; readonly batch: LoadedBatch }> {
  const { data, model, distributed } = config;
  // Which shards a node gets is decided later; the samples are the same.
  const alone = { ...config, distributed: { ...distributed, enabled: false } };
  const given = await withPlugins<GivenData>(alone, {}, { hooks: [] });
  const { train, validation } = await buildDataloader(dataloaderOptions(alone, given));
  try {
    const batch = await train.next();
    const needed = accumulationSteps(config);
    const source =
      data.text_path !== null ? "data.text_path" : data.sources !== null ? "data.sources" : "data.num_tokens";
    if (train.batchesPerEpoch < needed)
      findings.problem(
        source,
        `all samples together make ${train.batchesPerEpoch} micro-batches, but one update takes ${needed}: it would see samples more than once`,
        "lower data.target_batch_size or data.block_size, or use more data",
      );
    const epochs = (effectiveMaxSteps(config) * needed) / train.batchesPerEpoch;
    if (data.text_path !== null && model.vocab_size > byteIds)
      findings.note(
        "model.vocab_size",
        `text has ${byteIds} ids, the model ${model.vocab_size}: the others are never trained`,
        `set it to ${byteIds}`,
      );
    const samples = train.batchesPerEpoch * data.micro_batch_size;
    const heldOut = validation === undefined ? "" : `, ${formatCount(validation.length)} held out`;
    return {
      batch,
      detail: `${formatCount(samples)} samples of ${data.block_size} tokens${heldOut}; the run takes them ${Number(epochs.toPrecision(2))} times`,
    };
  } finally {
    await train.close();
    await given.dataset?.close?.();
  }
}
