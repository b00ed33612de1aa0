// What a configuration's model must have in common with its peers', before anything is trained.

import { configFingerprint } from "../../config/fingerprint.js";
import type { SpeedtronicConfig } from "../../config/schema.js";
import { ByteTokenizer } from "../../data/byte-tokenizer.js";
import { fingerprintDifferences, type ModelFingerprint } from "../../distributed/protocol/fingerprint.js";
import { buildConfiguredModel } from "../configured-model.js";
import { RunError } from "./errors.js";

/** The fingerprint that a training node of this configuration puts into its deltas. */
export function expectedFingerprint(config: SpeedtronicConfig): ModelFingerprint {
  const { vocabSize } = new ByteTokenizer({ vocabSize: config.model.vocab_size });
  const { model } = configFingerprint(config, {
    model: buildConfiguredModel(config),
    tokenizer: { kind: "byte", vocabSize },
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
