// The node's own files: who it is, who may use them, and what a killed process leaves.

import { spawn } from "node:child_process";
import { mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { describe, expect, it, onTestFinished } from "vitest";

import { decodeRecord, encodeRecord } from "../../../src/distributed/node/node-record.js";
import type { NodeRecord } from "../../../src/distributed/node/outbox.js";
import { openStateFolder, persistentNodeId } from "../../../src/distributed/node/state-folder.node.js";

async function temporaryFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "speedtronic-node-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  return folder;
}

const record: NodeRecord = {
  salt: "ab",
  lastTaken: 3,
  progress: {
    current: 4,
    takenIn: [
      [2, null],
      [3, 3],
      [4, null],
    ],
  },
  worker: {
    nextSequence: 4,
    installed: 7,
    hasLedger: true,
    localStep: 90,
    stepsSinceSnapshot: 5,
    tokensSinceSnapshot: 50,
    pending: [
      {
        sequence: 3,
        path: "nodes/a/delta_3221225472.safetensors",
        baseOuterStep: -1,
        localStep: 85,
        steps: 10,
        tokens: 100,
        sha256: "0".repeat(64),
        stage: "queued",
      },
    ],
  },
};

describe("a node's identity", () => {
  it("L-99: is random where none is given, and stays", async () => {
    const root = await temporaryFolder();
    const ids = await Promise.all([1, 2, 3].map(() => persistentNodeId(join(root, "a"))));
    expect(new Set(ids).size).toBe(1);
    expect(ids[0]).toMatch(/^node-[0-9a-f]{8}$/);
    expect(await persistentNodeId(join(root, "a"))).toBe(ids[0]);
    expect(await persistentNodeId(join(root, "b"))).not.toBe(ids[0]);
  });

  it("L-65: is refused where it cannot be a folder everywhere", async () => {
    const root = await temporaryFolder();
    for (const nodeId of ["../x", "a/b", "", "con", "a."])
      await expect(openStateFolder({ root, nodeId, repoKey: "r" })).rejects.toMatchObject({
        code: "wire.invalid_node_id",
      });
    await writeFile(join(root, "node-id"), "../x\n");
    await expect(openStateFolder({ root, nodeId: null, repoKey: "r" })).rejects.toMatchObject({
      code: "node.state_folder",
      message: expect.stringContaining("remove the file"),
    });
    expect(await readdir(root)).toEqual(["node-id"]);
  });
});

describe("a state folder", () => {
  it("L-59: keeps repositories apart and survives its process", async () => {
    const root = await temporaryFolder();
    const open = (repoKey: string) => openStateFolder({ root, nodeId: "a", repoKey });
    const first = await open("one");
    expect(first.path).toBe(join(root, "a", "one"));
    expect(await first.outbox.load()).toBeUndefined();
    await first.outbox.save(record);
    const stored = await first.outbox.outgoing.write("delta_3.safetensors", async (sink) => {
      await sink.write(Uint8Array.of(1, 2));
      await sink.write(Uint8Array.of(3));
    });
    expect(stored).toEqual({
      sizeBytes: 3,
      sha256: "039058c6f2c0cb492c533b0a4d14ef77cc0f78abccced5287d84a1a2011cfb81",
    });
    await first.release();
    const second = await open("two");
    expect(await second.outbox.load()).toBeUndefined();
    await second.release();
    const third = await open("one");
    onTestFinished(() => third.release());
    expect(await third.outbox.load()).toEqual(record);
    const content = await third.outbox.outgoing.content("delta_3.safetensors");
    const bytes: number[] = [];
    for await (const chunk of content.chunks()) bytes.push(...chunk);
    expect([content.sizeBytes, bytes]).toEqual([3, [1, 2, 3]]);
  });

  it("L-99: is one process's: a second one is told who has it, and gets it once that was killed", async () => {
    const root = await temporaryFolder();
    const module = new URL("../../../src/distributed/node/state-folder.node.ts", import.meta.url).href;
    // Killed while it writes a delta: half of it is in a temporary file.
    const program = `
      const { openStateFolder } = await import(${JSON.stringify(module)});
      const { outbox } = await openStateFolder({ root: ${JSON.stringify(root)}, nodeId: "a", repoKey: "r" });
      await outbox.outgoing.write("delta_1.safetensors", (sink) => sink.write(new Uint8Array(8)));
      await outbox.outgoing.write("delta_1.safetensors", async (sink) => {
        await sink.write(new Uint8Array(2 ** 21));
        console.log("half");
        await new Promise((resolve) => setTimeout(resolve, 60_000));
      });`;
    const child = spawn(process.execPath, ["--import", "tsx", "--input-type=module", "-e", program], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    onTestFinished(() => void child.kill("SIGKILL"));
    await new Promise((resolve) => child.stdout.once("data", resolve));
    const open = () => openStateFolder({ root, nodeId: "a", repoKey: "r" });
    await expect(open()).rejects.toMatchObject({
      code: "node.locked",
      exitCode: 6,
      details: { nodeId: "a", pid: child.pid },
      message: expect.stringContaining(`process ${child.pid}`),
    });
    const ended = new Promise((resolve) => child.once("close", resolve));
    child.kill("SIGKILL");
    await ended;
    const outgoing = join(root, "a", "r", "outgoing");
    expect((await readdir(outgoing)).length).toBe(2);
    const folder = await open();
    onTestFinished(() => folder.release());
    expect(await readdir(outgoing)).toEqual(["delta_1.safetensors"]);
    expect((await readFile(join(outgoing, "delta_1.safetensors"))).byteLength).toBe(8);
  });
});

describe("the record on disk", () => {
  it("comes back as it was, without what was being taken", () => {
    expect(decodeRecord(encodeRecord(record), "x")).toEqual(record);
    const [first] = record.worker.pending;
    const taking = { ...first!, sequence: 4, sha256: undefined, stage: "taking" as const };
    const worker = { ...record.worker, pending: [first!, taking] };
    expect(decodeRecord(encodeRecord({ ...record, worker }), "x")).toEqual(record);
  });

  const text = encodeRecord(record);
  it.each([
    ["{", "state.json: is not the state of a node"],
    ["[]", "no object"],
    [text.replace('"format": 1', '"format": 2'), "format is 2"],
    [text.replace('"next_sequence": 4', '"next_sequence": -4'), "next_sequence is -4"],
    [text.replace("nodes/a/", "../a/"), "path is no delta's"],
    [text.replace('"queued"', '"eaten"'), 'stage is "eaten"'],
  ])("is refused when it is damaged: %s", (damaged, words) => {
    expect(() => decodeRecord(damaged, "state.json")).toThrow(words);
  });
});
