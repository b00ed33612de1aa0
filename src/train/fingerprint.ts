// What a run is told by, from its configuration, its model and its data: stored with every checkpoint of it.

import type { Fingerprint } from "../checkpoint/content.js";
import { configFingerprint } from "../config/fingerprint.js";
import type { SpeedtronicConfig } from "../config/schema.js";
import type { DataPipeline } from "../data/build-dataloader.js";
import { ByteTokenizer } from "../data/byte-tokenizer.js";
import { JsonTokenizer } from "../data/tokenizers/json-tokenizer.js";
import { tokenizerDigest } from "../data/tokenizers/open-tokenizer.js";
import type { Tokenizer } from "../data/types.js";
import type { TrainableModel } from "../nn/contract.js";

export function runFingerprint(
  config: SpeedtronicConfig,
  model: TrainableModel,
  { tokenizer, fingerprint }: DataPipeline,
  adapters: Readonly<Record<string, unknown>> | undefined,
): Fingerprint {
  const whole = configFingerprint(config, {
    model,
    tokenizer: tokenizerFingerprint(tokenizer),
    data: { ...fingerprint },
  });
  return adapters ? { ...whole, model: { ...whole.model, lora: adapters } } : whole;
}

/** Equal for tokenizers that nodes of one run may have. */
export function tokenizerFingerprint(tokenizer: Tokenizer) {
  return {
    kind: tokenizer instanceof ByteTokenizer ? ("byte" as const) : ("custom" as const),
    vocabSize: tokenizer.vocabSize,
    ...(tokenizer instanceof JsonTokenizer && { sha256: tokenizerDigest(tokenizer) }),
  };
}
