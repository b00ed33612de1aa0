// What differs between operating systems when files must survive a power cut. Node only.

import { open } from "node:fs/promises";

/**
 * Makes earlier creations, renames and removals in `folder` durable. On Windows a folder cannot be opened
 * for this and NTFS journals such changes itself, so nothing is done there.
 */
export async function syncFolder(folder: string): Promise<void> {
  if (process.platform === "win32") return;
  const handle = await open(folder, "r");
  try {
    await handle.sync();
  } catch (error) {
    // Some network and user-space file systems cannot sync a folder; then there is nothing more to be had.
    const { code } = error as NodeJS.ErrnoException;
    if (code !== "EINVAL" && code !== "ENOTSUP") throw error;
  } finally {
    await handle.close();
  }
}

/** Whether a process with this id runs on this machine (true also when it belongs to another user). */
export function isProcessAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}
