// What a configuration's model must have in common with its peers', before anything is trained.

import { configFingerprint } from "../../config/fingerprint.js";
import type { SpeedtronicConfig } from "../../config/schema.js";
import { ByteTokenizer } from "../../data/byte-tokenizer.js";
import { fingerprintDifferences, type ModelFingerprint } from "../../distributed/protocol/fingerprint.js";
import type { TrainableModel } from "../../nn/contract.js";
import { buildConfiguredModel } from "../configured-model.js";
import { tokenizerFingerprint } from "../fingerprint.js";
import { namedTokenizer } from "../plugins/given.js";
import { RunError } from "./errors.js";

/**
 * The fingerprint that a training node of this configuration puts into its deltas.
 * @throws DataError if `data.tokenizer` cannot be read
 */
export async function expectedFingerprint(
  config: SpeedtronicConfig,
  configured: TrainableModel = buildConfiguredModel(config),
): Promise<ModelFingerprint> {
  const bytes = new ByteTokenizer({ vocabSize: config.model.vocab_size });
  const { model } = configFingerprint(config, {
    model: configured,
    tokenizer: tokenizerFingerprint((await namedTokenizer(config)) ?? bytes),
    data: null,
  });
  // Through JSON: fields without a value are left out.
  return JSON.parse(JSON.stringify(model)) as ModelFingerprint;
}

/** @throws RunError `run.other_model` naming every field that differs; `theirs` continues "is not the one of". */
export function requireSameModel(
  ours: ModelFingerprint,
  { fingerprint, where }: { readonly fingerprint: ModelFingerprint | undefined; readonly where: string },
  advice: string,
): void {
  if (fingerprint === undefined) return;
  const differences = fingerprintDifferences(ours, fingerprint);
  if (differences.length === 0) return;
  throw new RunError(
    "other_model",
    `the model is not the one of ${where}: ${differences.join("; ")}. ${advice}`,
    {
      details: { differences },
    },
  );
}
