// Copies one checkpoint to a place of its own, out of retention's reach: bytes that were verified, verified again.

import { open } from "node:fs/promises";
import { join } from "node:path";
import { MANIFEST_FILE } from "./file-names.js";
import type { CheckpointInfo } from "./folder-reader.js";
import { verifiedInfo } from "./load.js";
import { placeFolder } from "./place-folder.js";

const PIECE_BYTES = 1 << 22;

/**
 * Copies the checkpoint in `from` (its folder, or the newest good one of a run's) to the new folder `to`.
 *
 * @throws CheckpointError as for loading; `checkpoint.exists`, `checkpoint.disk_full`, `checkpoint.write_failed`
 */
export async function copyCheckpoint(
  from: string,
  to: string,
  options: { readonly overwrite?: boolean } = {},
): Promise<CheckpointInfo> {
  const info = await verifiedInfo(from);
  return placeFolder(to, options.overwrite ?? false, async (disk, folder) => {
    await disk.makeFolder(folder);
    for (const name of [...Object.keys(info.manifest.files), MANIFEST_FILE]) {
      await disk.writeFile(join(folder, name), async (sink) => {
        const handle = await open(join(info.path, name), "r");
        try {
          const piece = Buffer.allocUnsafeSlow(PIECE_BYTES);
          for (;;) {
            const { bytesRead } = await handle.read(piece, 0, piece.byteLength);
            if (bytesRead === 0) break;
            await sink.write(piece.subarray(0, bytesRead));
          }
        } finally {
          await handle.close();
        }
      });
    }
    await disk.syncFolder(folder);
  });
}
