// Atomic files on a real disk: the old content or the new one, and nothing left beside it.

import { execFileSync, spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, utimesSync, writeFileSync } from "node:fs";
import { open } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";

import {
  FileWriteError,
  sweepStaleTemporaries,
  writeFileAtomically,
  writeStreamAtomically,
} from "../../src/util/atomic-file.node.js";

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "atomic-file-"));
});
afterEach(() => {
  rmSync(folder, { recursive: true, force: true });
});

async function rejection(promise: Promise<unknown>): Promise<unknown> {
  return promise.then(
    () => expect.fail("should have failed"),
    (error: unknown) => error,
  );
}

/** An id that no process has any more. */
function deadPid(): number {
  return spawnSync(process.execPath, ["--version"]).pid;
}

describe("writing", () => {
  test("creates a file, replaces it, and leaves nothing beside it", async () => {
    const path = join(folder, "state.json");
    await writeFileAtomically(path, "old");
    await writeFileAtomically(path, "new: é");
    expect(readFileSync(path, "utf8")).toBe("new: é");
    expect(readdirSync(folder)).toEqual(["state.json"]);
  });

  test("small and large chunks arrive in order, also when the producer reuses its buffer", async () => {
    const path = join(folder, "chunks");
    const sizes = [1, 7, 300_000, 5, 262_143, 262_144, 1_000_000, 0, 262_143, 262_143, 262_143, 262_143, 3];
    const expected: Buffer[] = [];
    const buffer = new Uint8Array(1_000_000);
    await writeStreamAtomically(path, async (sink) => {
      for (const [index, size] of sizes.entries()) {
        buffer.fill(index + 1, 0, size);
        expected.push(Buffer.from(buffer.subarray(0, size)));
        await sink.write(buffer.subarray(0, size));
      }
    });
    expect(readFileSync(path).equals(Buffer.concat(expected))).toBe(true);
  });

  test("the target keeps its old content until the end", async () => {
    const path = join(folder, "state");
    await writeFileAtomically(path, "old");
    await writeStreamAtomically(path, async (sink) => {
      await sink.write(new Uint8Array(2_000_000));
      expect(readFileSync(path, "utf8")).toBe("old");
    });
    expect(statSync(path).size).toBe(2_000_000);
  });

  test("an open reader of the old file is not disturbed", async () => {
    const path = join(folder, "state");
    await writeFileAtomically(path, "old");
    const handle = await open(path, "r");
    await writeFileAtomically(path, "new");
    expect(await handle.readFile("utf8")).toBe("old");
    await handle.close();
  });

  test("missing folders are made on request only", async () => {
    const path = join(folder, "a", "b", "state");
    const error = await rejection(writeFileAtomically(path, "x"));
    expect(error).toMatchObject({
      name: "FileWriteError",
      code: "file.write_failed",
      systemCode: "ENOENT",
      path,
    });
    await writeFileAtomically(path, "x", { createFolders: true });
    expect(readFileSync(path, "utf8")).toBe("x");
  });

  test("a very long name and writing without sync work", async () => {
    const path = join(folder, "n".repeat(255));
    await writeFileAtomically(path, "x", { durable: false });
    expect(readdirSync(folder)).toEqual(["n".repeat(255)]);
  });

  test("many writers of one path: one of the contents wins whole", async () => {
    const path = join(folder, "state");
    const contents = Array.from({ length: 20 }, (_, i) => String(i).repeat(50_000));
    await Promise.all(contents.map((content) => writeFileAtomically(path, content)));
    expect(contents).toContain(readFileSync(path, "utf8"));
    expect(readdirSync(folder)).toEqual(["state"]);
  });
});

describe("failing", () => {
  test("a producer's error passes through, the old file stays, no temporary is left", async () => {
    const path = join(folder, "state");
    await writeFileAtomically(path, "old");
    const cause = new RangeError("bad tensor");
    const error = await rejection(
      writeStreamAtomically(path, async (sink) => {
        await sink.write(new Uint8Array(1_000_000));
        throw cause;
      }),
    );
    expect(error).toBe(cause);
    expect(readFileSync(path, "utf8")).toBe("old");
    expect(readdirSync(folder)).toEqual(["state"]);
  });

  test("a rename that cannot happen is reported with path and code", async () => {
    const error = await rejection(writeFileAtomically(folder, "x"));
    expect(error).toBeInstanceOf(FileWriteError);
    expect(error).toMatchObject({ exitCode: 4, path: folder, code: "file.write_failed" });
    expect(readdirSync(folder)).toEqual([]);
  });

  test.skipIf(process.platform !== "linux")("ENOSPC of a device is told as a full disk", async () => {
    const path = join(folder, "state");
    const full = await open("/dev/full", "w");
    const error = await rejection(
      writeStreamAtomically(path, async () => {
        await full.write(new Uint8Array(1));
      }),
    );
    await full.close();
    expect(error).toMatchObject({
      name: "FileWriteError",
      code: "file.no_space",
      systemCode: "ENOSPC",
      path,
    });
    expect((error as Error).message).toContain(`${path}: no space left on the disk`);
    expect(readdirSync(folder)).toEqual([]);
  });

  test("a file system that is really full keeps the old file and nothing else", async (context) => {
    try {
      execFileSync("mount", ["-t", "tmpfs", "-o", "size=1m", "tmpfs", folder], { stdio: "ignore" });
    } catch {
      context.skip("mounting a small file system needs root on Linux");
    }
    try {
      const path = join(folder, "state");
      await writeFileAtomically(path, "old");
      const error = await rejection(writeFileAtomically(path, new Uint8Array(2_000_000)));
      expect(error).toMatchObject({ code: "file.no_space", systemCode: "ENOSPC", path });
      expect(readFileSync(path, "utf8")).toBe("old");
      expect(readdirSync(folder)).toEqual(["state"]);
      await writeFileAtomically(path, "after");
      expect(readFileSync(path, "utf8")).toBe("after");
    } finally {
      execFileSync("umount", [folder]);
    }
  });
});

describe("sweeping", () => {
  const temporary = (pid: number) => `.state.${pid}-0123456789abcdef.tmp`;

  test("removes what dead processes left and nothing else", async () => {
    const stale = temporary(deadPid());
    const others = [
      "state",
      "state.tmp",
      ".state.tmp",
      ".hidden",
      temporary(process.ppid),
      temporary(process.pid),
    ];
    for (const name of [stale, ...others]) writeFileSync(join(folder, name), "x");
    expect(await sweepStaleTemporaries(folder)).toEqual([stale]);
    expect(readdirSync(folder).sort()).toEqual(others.sort());
  });

  test("a temporary with our own id from before our start is an earlier process's", async () => {
    const name = temporary(process.pid);
    writeFileSync(join(folder, name), "x");
    utimesSync(join(folder, name), 1, 1);
    expect(await sweepStaleTemporaries(folder)).toEqual([name]);
  });

  test("a write in progress survives a sweep", async () => {
    const path = join(folder, "state");
    await writeStreamAtomically(path, async (sink) => {
      expect(readdirSync(folder)).toHaveLength(1);
      expect(await sweepStaleTemporaries(folder)).toEqual([]);
      await sink.write(new TextEncoder().encode("whole"));
    });
    expect(readFileSync(path, "utf8")).toBe("whole");
  });

  test("what a killed writer leaves is found by its name", async () => {
    const script = join(folder, "writer.mts");
    const module = new URL("../../src/util/atomic-file.node.ts", import.meta.url).href;
    writeFileSync(
      script,
      `import { writeStreamAtomically } from ${JSON.stringify(module)};
       await writeStreamAtomically(${JSON.stringify(join(folder, "state"))}, async (sink) => {
         await sink.write(new Uint8Array(1_000_000));
         process.kill(process.pid, "SIGKILL");
         await new Promise(() => {});
       });`,
    );
    const result = spawnSync(process.execPath, ["--import", "tsx", script], { encoding: "utf8" });
    expect({ signal: result.signal, stderr: result.stderr }).toEqual({ signal: "SIGKILL", stderr: "" });
    const swept = await sweepStaleTemporaries(folder);
    expect(swept).toHaveLength(1);
    expect(swept[0]).toMatch(/^\.state\.[0-9]+-[0-9a-f]{16}\.tmp$/);
    expect(readdirSync(folder)).toEqual(["writer.mts"]);
  });
});
