// Which of our checkpoints a folder stands for: itself, or the newest of a run. By manifest and pointer alone;
// nothing is verified here, since a tool that looks at a damaged checkpoint must be able to open it.

import { locate, scanDirectory } from "../../checkpoint/directory.js";
import { type CheckpointInfo, readInfo } from "../../checkpoint/folder-reader.js";
import { readPointer } from "../../checkpoint/pointer.js";
import { CheckpointError } from "../../util/errors.js";

export type { CheckpointInfo };

/** The checkpoint in `folder`, or the newest where it is a folder of checkpoints or of a run; undefined for others. */
export async function readCheckpointInfo(folder: string): Promise<CheckpointInfo | undefined> {
  const place = await locateOrNothing(folder);
  if (place === undefined) return undefined;
  if ("checkpoint" in place) return readInfo(place.checkpoint);
  const { infos, problems } = await scanDirectory(place.directory);
  const { pointer } = await readPointer(place.directory);
  const newest = infos.find(({ name }) => name === pointer?.file) ?? infos.at(-1);
  if (newest === undefined && problems[0] !== undefined) throw problems[0].error;
  return newest;
}

/** All checkpoints that can be listed in `folder`, oldest first; one for a single checkpoint. */
export async function listCheckpoints(folder: string): Promise<CheckpointInfo[]> {
  const place = await locateOrNothing(folder);
  if (place === undefined) return [];
  if ("checkpoint" in place) return [await readInfo(place.checkpoint)];
  return [...(await scanDirectory(place.directory)).infos];
}

async function locateOrNothing(folder: string) {
  try {
    return await locate(folder);
  } catch (error) {
    if (error instanceof CheckpointError && error.code === "checkpoint.not_found") return undefined;
    throw error;
  }
}
