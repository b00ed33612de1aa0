// Puts a checkpoint folder at a path of a person's choice: complete and verified, or not there at all. Outside of a
// run's directory, so without its names, lock and retention.

import { stat } from "node:fs/promises";
import { dirname, resolve } from "node:path";

import { CheckpointError } from "../util/errors.js";
import { Disk } from "./disk.js";
import { directoryFailure, saveFailure, systemCode } from "./failure.js";
import { type CheckpointInfo, readInfo } from "./folder-reader.js";
import { Temporaries } from "./temporaries.js";
import { verifyFiles } from "./verify.js";

/**
 * `fill` writes the folder under a hidden name beside the path. With `overwrite` a checkpoint that is there already is
 * replaced once the new one is verified.
 *
 * @throws CheckpointError `checkpoint.exists`, `checkpoint.disk_full`, `checkpoint.write_failed`
 */
export async function placeFolder(
  path: string,
  overwrite: boolean,
  fill: (disk: Disk, folder: string) => Promise<unknown>,
): Promise<CheckpointInfo> {
  const folder = resolve(path);
  const parent = dirname(folder);
  const disk = new Disk();
  const temporaries = new Temporaries(disk, parent, () => undefined);
  const isReplaced = await isTaken(folder, overwrite);
  try {
    await disk.makeFolder(parent);
  } catch (error) {
    throw directoryFailure(error, parent);
  }
  const temporary = temporaries.newPath("new");
  try {
    await fill(disk, temporary);
    await verifyFiles(await readInfo(temporary));
    const old = isReplaced ? temporaries.newPath("old") : undefined;
    if (old) await disk.rename(folder, old);
    await disk.rename(temporary, folder);
    if (old) await disk.removeTree(old);
    return await readInfo(folder);
  } catch (error) {
    await temporaries.removeOwn();
    throw saveFailure(error, folder);
  }
}

async function isTaken(folder: string, overwrite: boolean): Promise<boolean> {
  const found = await stat(folder).catch((error: unknown) => {
    if (systemCode(error) === "ENOENT") return undefined;
    throw directoryFailure(error, folder);
  });
  if (found === undefined) return false;
  if (!overwrite) {
    throw new CheckpointError(
      `${folder} exists already; choose another path, or ask for it to be overwritten`,
      {
        code: "checkpoint.exists",
        details: { path: folder },
      },
    );
  }
  // Throws for anything but a folder of ours: nobody's pictures are deleted.
  await readInfo(folder);
  return true;
}
