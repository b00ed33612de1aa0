// Which samples a node has, as one hash that nodes compare. Node only.

import { createHash } from "node:crypto";
import type { DataPipeline } from "../data/build-dataloader.js";
import { fingerprintText, type ModelFingerprint } from "../distributed/protocol/fingerprint.js";
import type { Corpus } from "../distributed/protocol/shard-report.js";

/** Equal for equal samples in equal order, however the description's keys are ordered. */
export function hashCorpus({ samples, content }: NonNullable<DataPipeline["corpus"]>): Corpus {
  // Through JSON: fields without a value are left out.
  const text = fingerprintText(JSON.parse(JSON.stringify({ content, samples })) as ModelFingerprint);
  return { samples, sha256: createHash("sha256").update(text).digest("hex") };
}
