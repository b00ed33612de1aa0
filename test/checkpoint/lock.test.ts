// The lock of a checkpoint directory, held by real processes.

import { readdir, writeFile } from "node:fs/promises";
import { hostname } from "node:os";
import { join } from "node:path";

import { describe, expect, it, onTestFinished } from "vitest";

import { CheckpointStore } from "../../src/checkpoint/index.js";
import { currentProcess } from "../../src/util/process-identity.node.js";
import { startChild } from "./child-process.js";
import { stateAt, temporaryFolder } from "./fixtures.js";

async function newStore(): Promise<CheckpointStore> {
  return new CheckpointStore({ directory: await temporaryFolder(), keepLast: 2, runId: "run" });
}

async function writeLock(directory: string, content: Record<string, unknown>): Promise<void> {
  const lock = { host: hostname(), pid: 1, token: "x", lockedAt: "2030-01-01T00:00:00.000Z", ...content };
  await writeFile(join(directory, ".lock-1"), JSON.stringify(lock));
}

describe("another process", () => {
  it("keeps us out while it lives, and is taken over once it was killed", async () => {
    const store = await newStore();
    const child = startChild(store.directory, 0);
    onTestFinished(() => void child.process.kill("SIGKILL"));
    await child.waitForLine("locked");
    await expect(store.lock()).rejects.toMatchObject({
      code: "checkpoint.locked",
      exitCode: 4,
      message: expect.stringContaining(`in use by process ${child.process.pid}`),
      details: { pid: child.process.pid },
    });
    child.process.kill("SIGKILL");
    await child.ended;
    const lock = await store.lock();
    expect((await readdir(store.directory)).sort()).toEqual([".lock-2"]);
    const second = startChild(store.directory, 1);
    expect(await second.ended).toBe(4);
    expect(second.lines()).toEqual([expect.stringMatching(/^error checkpoint\.locked .*in use by process/)]);
    await lock.release();
    await lock.release();
    expect(await readdir(store.directory)).toEqual([]);
  });

  it("of ten that come at once one at most gets a stale lock at a time", async () => {
    const store = await newStore();
    await writeLock(store.directory, { ...currentProcess(), pid: 99999999 });
    const stores = Array.from(
      { length: 10 },
      () => new CheckpointStore({ ...store, keepLast: 1, runId: "x" }),
    );
    const results = await Promise.allSettled(stores.map((contender) => contender.lock()));
    const locks = results.flatMap((result) => (result.status === "fulfilled" ? [result.value] : []));
    const held = await Promise.all(locks.map((lock) => lock.isHeld()));
    expect(held.filter(Boolean).length).toBe(locks.length);
    expect(locks.length).toBeLessThanOrEqual(1);
    for (const lock of locks) await lock.release();
    await (await store.lock()).release();
  });
});

describe("a lock file", () => {
  it("of this very process refuses a second store", async () => {
    const store = await newStore();
    await store.lock();
    await expect(new CheckpointStore({ ...store, keepLast: 1, runId: "b" }).lock()).rejects.toThrow(
      /in use by this process itself/,
    );
  });

  it.each([
    ["an earlier boot", { ...currentProcess(), bootId: "another boot" }],
    ["an earlier process with a reused id", { ...currentProcess(), startTicks: "1" }],
    ["nobody, its content lost", undefined],
  ])("of %s is taken over", async (_, content) => {
    const store = await newStore();
    if (content === undefined) await writeFile(join(store.directory, ".lock-1"), "");
    else await writeLock(store.directory, content);
    const lock = await store.lock();
    expect(await lock.isHeld()).toBe(true);
  });

  it.each([
    ["machine", { host: "another-machine" }],
    ["container", { ...currentProcess(), pidNamespace: "pid:[1]" }],
  ])("of another %s is respected, and the message says how to clear it", async (_, content) => {
    const store = await newStore();
    await writeLock(store.directory, content);
    await expect(store.lock()).rejects.toThrow(
      /where this process cannot look; if that one has ended, remove the lock/,
    );
  });

  it("that was removed stops further saves", async () => {
    const store = await newStore();
    const lock = await store.lock();
    await store.save(stateAt(1));
    await lock.release();
    await expect(store.save(stateAt(2))).rejects.toMatchObject({ code: "checkpoint.lock_lost" });
    expect((await store.list()).map(({ step }) => step)).toEqual([1]);
  });
});

it("a directory that cannot be made is refused with its path", async () => {
  const file = join(await temporaryFolder(), "file");
  await writeFile(file, "");
  const store = new CheckpointStore({ directory: join(file, "checkpoints"), keepLast: 1, runId: "run" });
  const error = {
    code: "checkpoint.write_failed",
    exitCode: 4,
    message: expect.stringContaining(store.directory),
  };
  await expect(store.lock()).rejects.toMatchObject(error);
  await expect(store.save(stateAt(1))).rejects.toMatchObject(error);
});
