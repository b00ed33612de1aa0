// A disk that is really full: a tiny file system in memory. Needs the right to mount one; skipped elsewhere.

import { execFileSync } from "node:child_process";
import { mkdir, readdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";

import { expect, it, onTestFinished, type TestContext } from "vitest";

import { CheckpointStore, type FileOperation } from "../../src/checkpoint/index.js";
import { comparable, stateAt, temporaryFolder } from "./fixtures.js";

async function tinyDisk(context: TestContext): Promise<string> {
  const folder = join(await temporaryFolder(), "disk");
  await mkdir(folder);
  try {
    execFileSync("mount", ["-t", "tmpfs", "-o", "size=300k", "tmpfs", folder], { stdio: "pipe" });
  } catch (error) {
    context.skip(
      `a file system in memory cannot be mounted here: ${(error as Error).message.split("\n").at(-1)}`,
    );
  }
  onTestFinished(() => void execFileSync("umount", [folder]));
  return folder;
}

const size = 4096;

it("is found out before anything is written", async (context) => {
  const disk = await tinyDisk(context);
  const operations: FileOperation[] = [];
  const onFileOperation = (operation: FileOperation) => operations.push(operation);
  const store = new CheckpointStore({ directory: disk, keepLast: 3, runId: "run", onFileOperation });
  await store.save(stateAt(1, size));
  const before = (await readdir(disk)).sort();
  operations.length = 0;
  await writeFile(join(disk, "filler"), new Uint8Array(140 << 10));
  const saving = store.save(stateAt(2, size));
  await expect(saving).rejects.toMatchObject({ code: "checkpoint.disk_full", exitCode: 4 });
  await expect(saving).rejects.toThrow(
    /it needs about \d+ bytes, the disk has \d+ free; nothing was written/,
  );
  expect(operations.filter(({ kind }) => kind === "open")).toEqual([]);
  await rm(join(disk, "filler"));
  expect((await readdir(disk)).sort()).toEqual(before);
});

it("in the middle of a save leaves nothing half-written and the previous generation whole", async (context) => {
  const disk = await tinyDisk(context);
  const store = new CheckpointStore({ directory: disk, keepLast: 3, runId: "run" });
  await store.save(stateAt(1, size));
  let isFilled = false;
  const unlucky = new CheckpointStore({
    directory: disk,
    keepLast: 3,
    runId: "run",
    onFileOperation: ({ kind, path }) => {
      if (kind !== "write" || !path.endsWith("optimizer.safetensors") || isFilled) return;
      isFilled = true;
      // Somebody else takes all the space between our look and our write.
      try {
        execFileSync("dd", ["if=/dev/zero", `of=${join(disk, "filler")}`, "bs=4k"], { stdio: "pipe" });
      } catch {
        // dd stops because the disk is full, as intended.
      }
    },
  });
  const saving = unlucky.save(stateAt(2, size));
  await expect(saving).rejects.toMatchObject({
    code: "checkpoint.disk_full",
    details: { systemCode: "ENOSPC" },
  });
  expect(isFilled).toBe(true);
  expect((await readdir(disk)).sort()).toEqual(["filler", "latest.json", "step-000000000001"]);
  const loaded = await unlucky.loadNewestGood();
  expect(comparable(loaded!.content)).toEqual(comparable(stateAt(1, size)));
  await rm(join(disk, "filler"));
  await unlucky.save(stateAt(2, size));
  expect((await unlucky.loadNewestGood())!.info.step).toBe(2);
});
