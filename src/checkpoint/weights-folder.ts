// A model without a training state as a folder of ours: labelled `weights` in its manifest, so that it is taken for
// generation and as initial weights, and never for a resume. For exports, imports and tools; runs use the store.

import { randomUUID } from "node:crypto";

import type { CheckpointInfo } from "./folder-reader.js";
import { prepareWeights, type WeightsContent, writeFolder } from "./folder-writer.js";
import { placeFolder } from "./place-folder.js";
import type { TiedTensors } from "./tensor-file.js";

export interface SaveWeightsOptions {
  /** Whether tied tensors are written under each of their names. Default `once`. */
  readonly tiedTensors?: TiedTensors;
  /** Replace what is at the path, which must be a folder of ours. Default false. */
  readonly overwrite?: boolean;
  readonly clock?: () => Date;
}

/**
 * Writes `content` as the new folder `path`: complete and verified, or not there at all.
 *
 * @throws CheckpointError `checkpoint.exists`, `checkpoint.disk_full`, `checkpoint.write_failed`
 */
export async function saveWeightsFolder(
  path: string,
  content: WeightsContent,
  options: SaveWeightsOptions = {},
): Promise<CheckpointInfo> {
  const { tiedTensors = "once", overwrite = false, clock = () => new Date() } = options;
  const prepared = prepareWeights(content, tiedTensors);
  return placeFolder(path, overwrite, (disk, folder) =>
    writeFolder(disk, folder, prepared, {
      runId: `weights-${randomUUID()}`,
      sequence: 0,
      createdAt: clock().toISOString(),
      parent: null,
    }),
  );
}
