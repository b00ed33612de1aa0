// Writes one checkpoint folder, file by file, manifest last. Where the folder lies, what it is called in the end
// and what happens on failure is the store's business.

import { join } from "node:path";

import { safetensorsSizeBytes, type TensorStream, writeSafetensors } from "../formats/safetensors/index.js";
import type { TensorData } from "../tensor/dtype.js";
import type { CheckpointContent, Environment, Fingerprint } from "./content.js";
import type { Disk, FileDigest } from "./disk.js";
import {
  CONFIG_FILE,
  COORDINATOR_FILE,
  COORDINATOR_TENSORS_FILE,
  type ContentFile,
  MANIFEST_FILE,
  MODEL_FILE,
  MODULES_FILE,
  OPTIMIZER_FILE,
  TRAINER_FILE,
} from "./file-names.js";
import { encodeJson } from "./json-values.js";
import { encodeManifest, FORMAT_VERSION, type Manifest, type ParentReference } from "./manifest.js";
import { redactSecrets } from "./redact.js";
import { planTensors, type TiedTensors } from "./tensor-file.js";

interface FolderHead {
  readonly runId: string;
  readonly sequence: number;
  readonly createdAt: string;
  readonly parent: ParentReference | null;
}

/** Content made ready to be written: all that can be refused has been. */
export interface PreparedFolder {
  readonly kind: Manifest["kind"];
  readonly step: number;
  readonly validationLoss: number | null;
  readonly fingerprint: Fingerprint;
  readonly environment: Environment;
  readonly aliases: Readonly<Record<string, string>>;
  /** In the order of writing. */
  readonly files: readonly PreparedFile[];
  /** Space needed on disk, rounded up generously for the file system's blocks. */
  readonly neededBytes: number;
}

type PreparedFile =
  | { readonly name: ContentFile; readonly text: string }
  | {
      readonly name: ContentFile;
      readonly streams: readonly TensorStream[];
      readonly metadata: Readonly<Record<string, string>>;
    };

/** A model without a training state. Tensors may be streams, so that none has to be in memory whole. */
export interface WeightsContent extends Pick<CheckpointContent, "config" | "modules" | "environment"> {
  readonly model: ReadonlyMap<string, TensorData> | readonly TensorStream[];
  /** Tied name → name under which the values stand in `model`; found by itself where `model` is a map. */
  readonly aliases?: Readonly<Record<string, string>>;
  readonly fingerprint: Partial<Fingerprint>;
}

// Readers of model files elsewhere look for the framework whose conventions the names and layouts follow.
const modelMetadata = { format: "pt" };
/** Manifest, pointer, lock, folder entries and the unused ends of blocks. */
const OVERHEAD_BYTES = 64 << 10;

export function prepareFolder(content: CheckpointContent, tied: TiedTensors): PreparedFolder {
  const { trainer, fingerprint, environment } = content;
  const model = planTensors(content.model, tied);
  // Moments that share storage would be a mistake of the caller; each is written, none is tied.
  const optimizer = planTensors(content.optimizer, "each");
  const coordinator = planTensors(content.coordinator ?? new Map(), "each");
  const { coordinator: coordinatorState, ...trainerState } = trainer;
  const files: PreparedFile[] = [
    { name: MODEL_FILE, streams: model.streams, metadata: modelMetadata },
    { name: OPTIMIZER_FILE, streams: optimizer.streams, metadata: {} },
    { name: TRAINER_FILE, text: encodeJson(trainerState, "trainer") },
    ...describingFiles(content),
  ];
  if (coordinatorState !== null)
    files.push({ name: COORDINATOR_FILE, text: encodeJson(coordinatorState, "coordinator") });
  if (coordinator.streams.length > 0)
    files.push({ name: COORDINATOR_TENSORS_FILE, streams: coordinator.streams, metadata: {} });
  return {
    kind: "training",
    step: trainer.step,
    validationLoss: trainer.validation?.loss ?? null,
    fingerprint,
    environment,
    aliases: model.aliases,
    files,
    neededBytes: neededBytes(files),
  };
}

export function prepareWeights(content: WeightsContent, tied: TiedTensors): PreparedFolder {
  const { model, aliases = {}, fingerprint, environment } = content;
  const plan = Array.isArray(model)
    ? { streams: model as readonly TensorStream[], aliases }
    : planTensors(model as ReadonlyMap<string, TensorData>, tied);
  const files: PreparedFile[] = [
    { name: MODEL_FILE, streams: plan.streams, metadata: modelMetadata },
    ...describingFiles(content),
  ];
  return {
    kind: "weights",
    step: 0,
    validationLoss: null,
    fingerprint: { model: {}, data: {}, optimizer: {}, ...fingerprint },
    environment,
    aliases: { ...plan.aliases, ...aliases },
    files,
    neededBytes: neededBytes(files),
  };
}

function describingFiles({ config, modules }: Pick<CheckpointContent, "config" | "modules">): PreparedFile[] {
  const files: PreparedFile[] = [{ name: CONFIG_FILE, text: encodeJson(redactSecrets(config), "config") }];
  if (modules !== undefined && Object.keys(modules).length > 0)
    files.push({ name: MODULES_FILE, text: encodeJson(modules, "modules") });
  return files;
}

function neededBytes(files: readonly PreparedFile[]): number {
  const sizes = files.map((file) =>
    "text" in file ? 2 * file.text.length : safetensorsSizeBytes(file.streams, file.metadata),
  );
  return sizes.reduce((total, size) => total + size, OVERHEAD_BYTES);
}

/** Fills the new folder `folder`, syncing each file and then the folder. */
export async function writeFolder(
  disk: Disk,
  folder: string,
  prepared: PreparedFolder,
  head: FolderHead,
): Promise<{ manifest: Manifest; manifestDigest: FileDigest }> {
  await disk.makeFolder(folder);
  const files: Partial<Record<ContentFile, FileDigest>> = {};
  for (const file of prepared.files) {
    const path = join(folder, file.name);
    files[file.name] =
      "text" in file
        ? await disk.writeText(path, file.text)
        : await disk.writeFile(path, async (sink) => {
            await writeSafetensors(sink, file.streams, file.metadata);
          });
  }
  const { kind, step, aliases, fingerprint, environment, validationLoss } = prepared;
  const { runId, sequence, createdAt, parent } = head;
  const manifest: Manifest = {
    formatVersion: FORMAT_VERSION,
    kind,
    runId,
    step,
    sequence,
    createdAt,
    parent,
    files,
    aliases,
    fingerprint,
    environment,
    validationLoss,
  };
  const manifestDigest = await disk.writeText(join(folder, MANIFEST_FILE), encodeManifest(manifest));
  await disk.syncFolder(folder);
  return { manifest, manifestDigest };
}
