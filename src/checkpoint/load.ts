// Loading from a path that a person gave, for programs that only read: resume from elsewhere, generation, tools.
// Needs no store, no run id and no lock.

import { CheckpointError } from "../util/errors.js";
import type { CheckpointContent } from "./content.js";
import { locate, readNewestGood, type Skipped } from "./directory.js";
import {
  type CheckpointInfo,
  type ModelContent,
  type OpenedContent,
  type OpenedModel,
  openContent,
  openModelContent,
  readContent,
  readInfo,
  readModel,
} from "./folder-reader.js";
import { heldTensors } from "./stored-tensors.js";
import { verifyFiles } from "./verify.js";

export interface Loaded<T> {
  readonly content: T;
  readonly info: CheckpointInfo;
  /** Newer ones that were passed over, with the reason. */
  readonly skipped: readonly Skipped[];
}
export type LoadedCheckpoint = Loaded<CheckpointContent>;
/** Verified, its tensors still on disk. To be closed (`content.close()`). */
export type OpenedCheckpoint = Loaded<OpenedContent>;

/**
 * The checkpoint in folder `path`, every byte verified; or the newest good one where `path` is a folder of
 * checkpoints or of a run.
 *
 * @throws CheckpointError `checkpoint.not_found`, `checkpoint.corrupt`, `checkpoint.newer_format`,
 * `checkpoint.weights_only`, `checkpoint.none_intact`, `checkpoint.unreadable`.
 */
export function loadCheckpoint(path: string): Promise<LoadedCheckpoint> {
  return loadWith(path, readContent);
}

/** Like {@link loadCheckpoint}, with the tensors left on disk, to be read one by one. To be closed. */
export function openCheckpoint(path: string): Promise<OpenedCheckpoint> {
  return loadWith(path, openContent);
}

/** The same face for a checkpoint that is in memory. Nothing to close. */
export function openLoaded({ content, info, skipped }: LoadedCheckpoint): OpenedCheckpoint {
  const { model, optimizer, coordinator, ...rest } = content;
  return {
    content: {
      ...rest,
      model: heldTensors(model),
      optimizer: heldTensors(optimizer),
      ...(coordinator ? { coordinator: heldTensors(coordinator) } : {}),
      close: async () => undefined,
    },
    info,
    skipped,
  };
}

/** Like {@link loadCheckpoint}, but reads and verifies model and configuration only. Accepts weights-only folders. */
export function loadModel(path: string): Promise<Loaded<ModelContent>> {
  return loadWith(path, readModel);
}

/** Like {@link loadModel}, with the tensors left on disk. To be closed (`content.close()`). */
export function openModel(path: string): Promise<Loaded<OpenedModel>> {
  return loadWith(path, openModelContent);
}

/** Checks every size and hash of one checkpoint folder. Throws CheckpointError for what differs first. */
export async function verifyCheckpoint(path: string): Promise<CheckpointInfo> {
  const info = await readInfo(path);
  await verifyFiles(info);
  return info;
}

/** The checkpoint that `path` leads to, every size and hash checked, nothing read. */
export async function verifiedInfo(path: string): Promise<CheckpointInfo> {
  return (await loadWith(path, (info) => verifyFiles(info))).info;
}

async function loadWith<T>(path: string, read: (info: CheckpointInfo) => Promise<T>): Promise<Loaded<T>> {
  const place = await locate(path);
  if ("checkpoint" in place) {
    const info = await readInfo(place.checkpoint);
    return { content: await read(info), info, skipped: [] };
  }
  const found = await readNewestGood(place.directory, read);
  if (found === undefined) {
    throw new CheckpointError(`${place.directory} holds no checkpoint`, {
      code: "checkpoint.not_found",
      details: { path: place.directory },
    });
  }
  return { content: found.value, info: found.info, skipped: found.skipped };
}
