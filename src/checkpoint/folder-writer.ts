// Writes one checkpoint folder, file by file, manifest last. Where the folder lies, what it is called in the end
// and what happens on failure is the store's business.

import { join } from "node:path";

import { safetensorsSizeBytes, writeSafetensors } from "../formats/safetensors/index.js";
import type { CheckpointContent } from "./content.js";
import type { Disk, FileDigest } from "./disk.js";
import { encodeJson } from "./json-values.js";
import { encodeManifest, FORMAT_VERSION, type Manifest, type ParentReference } from "./manifest.js";
import { CONFIG_FILE, MANIFEST_FILE, MODEL_FILE, OPTIMIZER_FILE, TRAINER_FILE } from "./names.js";
import { redactSecrets } from "./redact.js";
import { planTensors, type TensorPlan, type TiedTensors } from "./tensor-file.js";

interface FolderHead {
  readonly runId: string;
  readonly sequence: number;
  readonly createdAt: string;
  readonly parent: ParentReference | null;
}

/** Content made ready to be written: all that can be refused has been. */
export interface PreparedFolder {
  readonly model: TensorPlan;
  readonly optimizer: TensorPlan;
  readonly trainerText: string;
  readonly configText: string;
  readonly content: CheckpointContent;
  /** Space needed on disk, rounded up generously for the file system's blocks. */
  readonly neededBytes: number;
}

// Readers of model files elsewhere look for the framework whose conventions the names and layouts follow.
const modelMetadata = { format: "pt" };
/** Manifest, pointer, lock, folder entries and the unused ends of blocks. */
const OVERHEAD_BYTES = 64 << 10;

export function prepareFolder(content: CheckpointContent, tied: TiedTensors): PreparedFolder {
  const model = planTensors(content.model, tied);
  // Moments that share storage would be a mistake of the caller; each is written, none is tied.
  const optimizer = planTensors(content.optimizer, "each");
  const trainerText = encodeJson(content.trainer, "trainer");
  const configText = encodeJson(redactSecrets(content.config), "config");
  const neededBytes =
    safetensorsSizeBytes(model.streams, modelMetadata) +
    safetensorsSizeBytes(optimizer.streams) +
    2 * (trainerText.length + configText.length) +
    OVERHEAD_BYTES;
  return { model, optimizer, trainerText, configText, content, neededBytes };
}

/** Fills the new folder `folder`, syncing each file and then the folder. */
export async function writeFolder(
  disk: Disk,
  folder: string,
  prepared: PreparedFolder,
  head: FolderHead,
): Promise<{ manifest: Manifest; manifestDigest: FileDigest }> {
  const { model, optimizer, trainerText, configText, content } = prepared;
  await disk.makeFolder(folder);
  const files = {
    [MODEL_FILE]: await disk.writeFile(join(folder, MODEL_FILE), async (sink) => {
      await writeSafetensors(sink, model.streams, modelMetadata);
    }),
    [OPTIMIZER_FILE]: await disk.writeFile(join(folder, OPTIMIZER_FILE), async (sink) => {
      await writeSafetensors(sink, optimizer.streams);
    }),
    [TRAINER_FILE]: await disk.writeText(join(folder, TRAINER_FILE), trainerText),
    [CONFIG_FILE]: await disk.writeText(join(folder, CONFIG_FILE), configText),
  };
  const manifest: Manifest = {
    formatVersion: FORMAT_VERSION,
    kind: "training",
    runId: head.runId,
    step: content.trainer.step,
    sequence: head.sequence,
    createdAt: head.createdAt,
    parent: head.parent,
    files,
    aliases: model.aliases,
    fingerprint: content.fingerprint,
    environment: content.environment,
  };
  const manifestDigest = await disk.writeText(join(folder, MANIFEST_FILE), encodeManifest(manifest));
  await disk.syncFolder(folder);
  return { manifest, manifestDigest };
}
