// What a run is told by, from its configuration, its model and its data: stored with every checkpoint of it.

import type { Fingerprint } from "../checkpoint/content.js";
import { configFingerprint } from "../config/fingerprint.js";
import type { SpeedtronicConfig } from "../config/schema.js";
import type { DataPipeline } from "../data/build-dataloader.js";
import { ByteTokenizer } from "../data/byte-tokenizer.js";
import type { TrainableModel } from "../nn/contract.js";

export function runFingerprint(
  config: SpeedtronicConfig,
  model: TrainableModel,
  { tokenizer, fingerprint }: DataPipeline,
): Fingerprint {
  const kind = tokenizer instanceof ByteTokenizer ? "byte" : "custom";
  return configFingerprint(config, {
    model,
    tokenizer: { kind, vocabSize: tokenizer.vocabSize },
    data: { ...fingerprint },
  });
}
