// Reads one checkpoint folder: manifest, then (verify.ts) sizes and hashes of what is needed, then the content.
// Nothing is handed out before all of it is verified. Writes and deletes nothing.

import { readFile } from "node:fs/promises";
import { basename, join } from "node:path";

import { CheckpointError, SpeedtronicError } from "../util/errors.js";
import type { CheckpointContent, JsonObject, JsonValue, TrainerState } from "./content.js";
import { corrupt, systemCode } from "./failure.js";
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
import { decodeJson } from "./json-values.js";
import { type Manifest, parseManifest } from "./manifest.js";
import { openTensors, readAll, type StoredTensors } from "./stored-tensors.js";
import { unreadable, verifyFiles } from "./verify.js";

export { verifyFiles };

/** A checkpoint on disk as its manifest describes it. The other files have not been looked at. */
export interface CheckpointInfo {
  readonly path: string;
  /** Name of the folder. */
  readonly name: string;
  readonly runId: string;
  readonly step: number;
  readonly sequence: number;
  readonly createdAt: string;
  /** All files together, without the manifest. */
  readonly sizeBytes: number;
  /** Validation loss at this step; null where none was measured. */
  readonly validationLoss: number | null;
  readonly manifest: Manifest;
}

/** A model and what is needed to build it. */
export type ModelContent = Pick<
  CheckpointContent,
  "model" | "config" | "fingerprint" | "environment" | "modules"
>;

/** A verified model whose tensors are still on disk. To be closed. */
export interface OpenedModel extends Omit<ModelContent, "model"> {
  readonly model: StoredTensors;
  close(): Promise<void>;
}

/** A verified checkpoint whose tensors are still on disk. To be closed. */
export interface OpenedContent extends Omit<CheckpointContent, "model" | "optimizer" | "coordinator"> {
  readonly model: StoredTensors;
  readonly optimizer: StoredTensors;
  readonly coordinator?: StoredTensors;
  close(): Promise<void>;
}

export async function readInfo(path: string): Promise<CheckpointInfo> {
  const file = join(path, MANIFEST_FILE);
  let text: string;
  try {
    text = await readFile(file, "utf8");
  } catch (error) {
    if (systemCode(error) !== "ENOENT") throw unreadable(file, error);
    throw corrupt(
      `${path}: the folder has no ${MANIFEST_FILE}, so it is not a checkpoint or was never completed`,
      { path, missing: MANIFEST_FILE },
      error,
    );
  }
  const manifest = parseManifest(text, file);
  const { runId, step, sequence, createdAt, files, validationLoss } = manifest;
  const sizeBytes = Object.values(files).reduce((total, digest) => total + digest.sizeBytes, 0);
  return {
    path,
    name: basename(path),
    runId,
    step,
    sequence,
    createdAt,
    sizeBytes,
    validationLoss,
    manifest,
  };
}

/**
 * Verifies every byte and opens the tensors without reading their values; all else is read. Refuses a folder that
 * holds weights alone.
 */
export async function openContent(info: CheckpointInfo): Promise<OpenedContent> {
  if (info.manifest.kind !== "training") {
    throw new CheckpointError(
      `${info.path}: the folder holds model weights alone, without optimizer and trainer state, so a run cannot be ` +
        "resumed from it; use it as initial weights or for generation",
      { code: "checkpoint.weights_only", details: { path: info.path } },
    );
  }
  await verifyFiles(info);
  const opened: StoredTensors[] = [];
  const close = async () => {
    for (const tensors of opened.splice(0)) await tensors.close();
  };
  const open = async (file: ContentFile, aliases: Readonly<Record<string, string>> = {}) => {
    const tensors = await translated(join(info.path, file), (path) => openTensors(path, aliases));
    opened.push(tensors);
    return tensors;
  };
  try {
    const hasCoordinator = info.manifest.files[COORDINATOR_TENSORS_FILE] !== undefined;
    return {
      ...(await readDescription(info)),
      trainer: await readTrainer(info),
      model: await open(MODEL_FILE, info.manifest.aliases),
      optimizer: await open(OPTIMIZER_FILE),
      ...(hasCoordinator ? { coordinator: await open(COORDINATOR_TENSORS_FILE) } : {}),
      close,
    };
  } catch (error) {
    await close();
    throw error;
  }
}

/** Verifies everything, then reads it into memory. Refuses a folder that holds weights alone. */
export async function readContent(info: CheckpointInfo): Promise<CheckpointContent> {
  const { close, model, optimizer, coordinator, ...rest } = await openContent(info);
  const readFile = (file: ContentFile, tensors: StoredTensors) =>
    translated(join(info.path, file), () => readAll(tensors));
  try {
    return {
      ...rest,
      model: await readFile(MODEL_FILE, model),
      optimizer: await readFile(OPTIMIZER_FILE, optimizer),
      ...(coordinator ? { coordinator: await readFile(COORDINATOR_TENSORS_FILE, coordinator) } : {}),
    };
  } finally {
    await close();
  }
}

/** Verifies the model and what describes it, and opens its tensors. */
export async function openModelContent(info: CheckpointInfo): Promise<OpenedModel> {
  await verifyFiles(info, [MODEL_FILE, CONFIG_FILE, MODULES_FILE]);
  const description = await readDescription(info);
  const path = join(info.path, MODEL_FILE);
  const model = await translated(path, () => openTensors(path, info.manifest.aliases));
  return { ...description, model, close: () => model.close() };
}

/** Verifies and reads the model and what describes it. */
export async function readModel(info: CheckpointInfo): Promise<ModelContent> {
  const { close, model, ...description } = await openModelContent(info);
  try {
    return { ...description, model: await translated(join(info.path, MODEL_FILE), () => readAll(model)) };
  } finally {
    await close();
  }
}

async function readDescription({ path, manifest }: CheckpointInfo): Promise<Omit<ModelContent, "model">> {
  const { fingerprint, environment, files } = manifest;
  const hasModules = files[MODULES_FILE] !== undefined;
  return {
    config: (await readJson(join(path, CONFIG_FILE))) as Record<string, unknown>,
    ...(hasModules ? { modules: (await readJson(join(path, MODULES_FILE))) as JsonObject } : {}),
    fingerprint,
    environment,
  };
}

async function readTrainer(info: CheckpointInfo): Promise<TrainerState> {
  const path = join(info.path, TRAINER_FILE);
  const trainer = (await readJson(path)) as TrainerState;
  if (trainer.step !== info.step) {
    throw corrupt(`${path}: step is ${trainer.step}, its manifest says ${info.step}`, {
      path,
      expected: info.step,
      found: trainer.step,
    });
  }
  // The first format kept the coordinator's state in this file.
  if (info.manifest.formatVersion < 2) return trainer;
  const hasState = info.manifest.files[COORDINATOR_FILE] !== undefined;
  const coordinator = hasState ? ((await readJson(join(info.path, COORDINATOR_FILE))) as JsonValue) : null;
  return { ...trainer, coordinator };
}

async function readJson(path: string): Promise<unknown> {
  return translated(path, async () => decodeJson(await readFile(path, "utf8")));
}

/** Errors of files and of their parsers as ours. Others, such as a lack of memory, say nothing about the file. */
async function translated<T>(path: string, read: (path: string) => Promise<T>): Promise<T> {
  try {
    return await read(path);
  } catch (error) {
    if (error instanceof CheckpointError) throw error;
    if (error instanceof SpeedtronicError) throw corrupt(error.message, { path, ...error.details }, error);
    if (error instanceof SyntaxError)
      throw corrupt(`${path}: not valid JSON (${error.message})`, { path }, error);
    throw systemCode(error) === undefined ? error : unreadable(path, error);
  }
}
