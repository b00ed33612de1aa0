// Saving and loading with real files: what comes back, in which order, and what retention leaves.

import { createHash } from "node:crypto";
import { existsSync, writeFileSync } from "node:fs";
import { readdir, readFile, rename } from "node:fs/promises";
import { join, relative } from "node:path";

import { describe, expect, it } from "vitest";

import {
  type CheckpointContent,
  CheckpointStore,
  loadCheckpoint,
  loadModel,
  verifyCheckpoint,
} from "../../src/checkpoint/index.js";
import { openSafetensorsFile } from "../../src/formats/safetensors/index.node.js";
import type { TensorData } from "../../src/tensor/dtype.js";
import { comparable, stateAt, temporaryFolder } from "./fixtures.js";

async function saveSteps(store: CheckpointStore, steps: readonly number[]): Promise<void> {
  for (const step of steps) await store.save(stateAt(step));
}

async function foldersOf(directory: string): Promise<string[]> {
  return (await readdir(directory)).filter((name) => name.startsWith("step-")).sort();
}

describe("a saved checkpoint", () => {
  it("comes back bit for bit, every dtype, scalars and empty tensors included", async () => {
    const directory = await temporaryFolder();
    const odd = new Map<string, TensorData>([
      ["nan", { dtype: "float32", shape: [4], data: new Float32Array([Number.NaN, -0, Infinity, 1e-42]) }],
      ["double", { dtype: "float64", shape: [2], data: new Float64Array([Math.PI, -Number.MIN_VALUE]) }],
      ["half", { dtype: "float16", shape: [2, 1], data: new Float32Array([0.5, -65504]) }],
      ["ids", { dtype: "int32", shape: [3], data: new Int32Array([-1, 0, 2 ** 31 - 1]) }],
      ["mask", { dtype: "bool", shape: [2], data: new Uint8Array([1, 0]) }],
      ["scalar", { dtype: "float32", shape: [], data: new Float32Array([7]) }],
      ["empty", { dtype: "float32", shape: [0, 3], data: new Float32Array(0) }],
      ["größe.__proto__", { dtype: "int32", shape: [1], data: new Int32Array([5]) }],
    ]);
    const base = stateAt(3);
    const content: CheckpointContent = {
      ...base,
      model: new Map([...base.model, ...odd]),
      optimizer: odd,
      trainer: {
        ...base.trainer,
        bestValidation: { step: 0, loss: Infinity },
        coordinator: { pending: [Number.NaN, -0, null], ["__proto__"]: "kept" },
      },
    };
    const store = new CheckpointStore({ directory, keepLast: 3, runId: "run" });
    const saved = await store.save(content);
    const loaded = await store.loadNewestGood();
    expect(comparable(loaded!.content)).toEqual(comparable(content));
    expect(loaded!.skipped).toEqual([]);
    expect(loaded!.info).toMatchObject({ path: saved.path, step: 3, runId: "run", sequence: 1 });
    expect(Object.is((loaded!.content.trainer.coordinator as { pending: number[] }).pending[1], -0)).toBe(
      true,
    );
  });

  it("has the documented files, hashes that hold, and a pointer", async () => {
    const directory = await temporaryFolder();
    const clock = () => new Date("2030-01-02T03:04:05.678Z");
    const store = new CheckpointStore({ directory, keepLast: 3, runId: "run", clock });
    const saved = await store.save(stateAt(500));
    expect((await readdir(directory)).sort()).toEqual(["latest.json", "step-000000000500"]);
    expect((await readdir(saved.path)).sort()).toEqual([
      "config.json",
      "manifest.json",
      "model.safetensors",
      "optimizer.safetensors",
      "trainer.json",
    ]);
    const manifest = JSON.parse(await readFile(join(saved.path, "manifest.json"), "utf8"));
    expect(manifest).toMatchObject({
      formatVersion: 2,
      kind: "training",
      runId: "run",
      step: 500,
      sequence: 1,
      createdAt: "2030-01-02T03:04:05.678Z",
      parent: null,
      aliases: { "lm_head.weight": "tok_emb.weight" },
      fingerprint: stateAt(500).fingerprint,
      environment: stateAt(500).environment,
    });
    let totalBytes = (await readFile(join(saved.path, "manifest.json"))).byteLength;
    for (const [name, digest] of Object.entries(manifest.files)) {
      const bytes = await readFile(join(saved.path, name));
      const sha256 = createHash("sha256").update(bytes).digest("hex");
      expect(digest).toEqual({ sizeBytes: bytes.byteLength, sha256 });
      totalBytes += bytes.byteLength;
    }
    expect(saved).toMatchObject({ step: 500, sizeBytes: totalBytes });
    expect(JSON.parse(await readFile(join(directory, "latest.json"), "utf8"))).toEqual({
      step: 500,
      file: "step-000000000500",
      runId: "run",
      sequence: 1,
    });
    expect((await verifyCheckpoint(saved.path)).step).toBe(500);
  });

  it("gives the same tensor files for the same state, whatever the order of names", async () => {
    const [first, second] = [await temporaryFolder(), await temporaryFolder()];
    const content = stateAt(1);
    const reversed = { ...content, optimizer: new Map([...content.optimizer].reverse()) };
    const a = await new CheckpointStore({ directory: first, keepLast: 1, runId: "a" }).save(content);
    const b = await new CheckpointStore({ directory: second, keepLast: 1, runId: "b" }).save(reversed);
    for (const file of ["model.safetensors", "optimizer.safetensors"]) {
      expect(await readFile(join(a.path, file))).toEqual(await readFile(join(b.path, file)));
    }
  });

  it("holds tied tensors once, or under each name on request, and ties them again", async () => {
    for (const [tiedTensors, names] of [
      ["once", ["norm.weight", "tok_emb.weight"]],
      ["each", ["lm_head.weight", "norm.weight", "tok_emb.weight"]],
    ] as const) {
      const directory = await temporaryFolder();
      const store = new CheckpointStore({ directory, keepLast: 1, runId: "run", tiedTensors });
      const { path } = await store.save(stateAt(1));
      const reader = await openSafetensorsFile(join(path, "model.safetensors"));
      await reader.close();
      expect([...reader.entries.keys()].sort()).toEqual(names);
      const { model } = (await store.load(path)).content;
      expect(model.get("lm_head.weight")).toBe(model.get("tok_emb.weight"));
      expect(comparable((await store.load(path)).content)).toEqual(comparable(stateAt(1)));
    }
  });

  it("takes views into one shared buffer, of which only whole equal ones are tied", async () => {
    const directory = await temporaryFolder();
    const arena = new Float32Array(new SharedArrayBuffer(4 << 20)).map((_, i) => i);
    const view = (begin: number, end: number): TensorData => ({
      dtype: "float32",
      shape: [end - begin],
      data: arena.subarray(begin, end),
    });
    const model = new Map([
      ["a", view(0, 700_000)],
      ["b", view(0, 10)],
      ["c", view(700_000, 1 << 20)],
      ["d", view(0, 700_000)],
    ]);
    const content = { ...stateAt(1), model };
    const store = new CheckpointStore({ directory, keepLast: 1, runId: "run" });
    const { path } = await store.save(content);
    const loaded = await store.load(path);
    expect(loaded.info.manifest.aliases).toEqual({ d: "a" });
    expect(comparable(loaded.content)).toEqual(comparable(content));
  });

  it("is found from its folder, the checkpoints folder and the run's folder", async () => {
    const run = await temporaryFolder();
    const directory = join(run, "checkpoints");
    const store = new CheckpointStore({ directory, keepLast: 3, runId: "run" });
    await saveSteps(store, [1, 2]);
    const stepOf = async (path: string) => (await loadCheckpoint(path)).info.step;
    expect(await stepOf(run)).toBe(2);
    expect(await stepOf(directory)).toBe(2);
    expect(await stepOf(join(directory, "step-000000000001"))).toBe(1);
    const { content } = await loadModel(run);
    expect(content.model.get("norm.weight")).toEqual(stateAt(2).model.get("norm.weight"));
    expect(content.config).toEqual(stateAt(2).config);
    await expect(loadCheckpoint(join(run, "none"))).rejects.toMatchObject({
      code: "checkpoint.not_found",
      exitCode: 4,
    });
    await expect(loadCheckpoint(await temporaryFolder())).rejects.toMatchObject({
      code: "checkpoint.not_found",
    });
  });

  it("never carries a credential of the configuration", async () => {
    const directory = await temporaryFolder();
    const store = new CheckpointStore({ directory, keepLast: 1, runId: "run" });
    const config = { distributed: { token: "hf_verysecret", repo: "a/b" }, data: { tokenizer: "byte" } };
    const { path } = await store.save({ ...stateAt(1), config });
    for (const file of await readdir(path))
      expect(await readFile(join(path, file), "latin1")).not.toMatch("verysecret");
    expect((await store.load(path)).content.config).toEqual({
      distributed: { token: "<redacted>", repo: "a/b" },
      data: { tokenizer: "byte" },
    });
  });
});

describe("saving refuses", () => {
  it.each([
    ["a function", { hook: () => 1 }, /trainer\.extra\.hook: it is a function/],
    ["a typed array", { list: [new Float32Array(1)] }, /trainer\.extra\.list\[0\]: it is a Float32Array/],
    ["a bigint", { big: 1n }, /trainer\.extra\.big: it is a bigint/],
    ["the reserved key", { $number: "1" }, /reserved key "\$number"/],
  ])("%s in the trainer state, by its path, and writes nothing", async (_, extra, message) => {
    const directory = await temporaryFolder();
    const store = new CheckpointStore({ directory, keepLast: 1, runId: "run" });
    const content = stateAt(1);
    const saving = store.save({ ...content, trainer: { ...content.trainer, extra: extra as never } });
    await expect(saving).rejects.toThrow(message);
    await expect(saving).rejects.toMatchObject({ code: "checkpoint.not_plain_data", exitCode: 4 });
    expect(await readdir(directory)).toEqual([]);
  });

  it("data whose length does not fit its shape, and goes on saving afterwards", async () => {
    const directory = await temporaryFolder();
    const store = new CheckpointStore({ directory, keepLast: 1, runId: "run" });
    const model = new Map([["w", { dtype: "float32" as const, shape: [3], data: new Float32Array(2) }]]);
    await expect(store.save({ ...stateAt(1), model })).rejects.toThrow(/tensor "w".*12 bytes.*8/);
    await store.save(stateAt(2));
    expect(await foldersOf(directory)).toEqual(["step-000000000002"]);
  });

  it.each([0, -1, 1.5, Number.NaN])("keepLast %s", (keepLast) => {
    expect(() => new CheckpointStore({ directory: "x", keepLast, runId: "run" })).toThrow(/keep_last/);
  });
});

describe("the order of events in a save", () => {
  it("new folder complete, pointer moved, only then the old one removed", async () => {
    const directory = await temporaryFolder();
    const events: string[] = [];
    const store = new CheckpointStore({
      directory,
      keepLast: 1,
      runId: "run",
      onFileOperation: ({ kind, path }) => {
        const name = relative(directory, path).replace(/^\.tmp-.*-(\w+)/, "$1");
        if (kind === "rename" || kind === "unlink" || kind === "rmdir") events.push(`${kind} ${name}`);
        if (kind === "sync") events.push(`sync ${name}`);
      },
    });
    await store.save(stateAt(1));
    events.length = 0;
    await store.save(stateAt(2));
    expect(events.map((event) => event.replace(/(unlink) old\/.*/, "$1 in old"))).toEqual([
      "sync ",
      ...["model.safetensors", "optimizer.safetensors", "trainer.json", "config.json", "manifest.json"].map(
        (file) => `sync new/${file}`,
      ),
      "sync new",
      "rename step-000000000002",
      "sync ",
      "sync pointer",
      "rename latest.json",
      "sync ",
      "rename old",
      "sync ",
      ...Array.from({ length: 5 }, () => "unlink in old"),
      "rmdir old",
    ]);
  });

  it("a new checkpoint that does not read back is removed, the old one and the pointer stay", async () => {
    const directory = await temporaryFolder();
    const folder = join(directory, "step-000000000002");
    const store = new CheckpointStore({
      directory,
      keepLast: 1,
      runId: "run",
      onFileOperation: ({ kind, path }) => {
        // The sync of the directory after the rename: the disk goes wrong here.
        if (kind === "sync" && path === directory && existsSync(folder)) {
          writeFileSync(join(folder, "optimizer.safetensors"), "x", { flag: "r+" });
        }
      },
    });
    await store.save(stateAt(1));
    const before = await readFile(join(directory, "latest.json"), "utf8");
    await expect(store.save(stateAt(2))).rejects.toMatchObject({
      code: "checkpoint.corrupt",
      message: expect.stringMatching(/step-000000000002: the checkpoint just written does not read back/),
    });
    expect((await readdir(directory)).sort()).toEqual(["latest.json", "step-000000000001"]);
    expect(await readFile(join(directory, "latest.json"), "utf8")).toBe(before);
    expect((await store.loadNewestGood())!.info.step).toBe(1);
  });
});

describe("order and retention", () => {
  it.each([
    [1, ["step-000000000004"]],
    [2, ["step-000000000003", "step-000000000004"]],
    [9, [1, 2, 3, 4].map((step) => `step-00000000000${step}`)],
    [null, [1, 2, 3, 4].map((step) => `step-00000000000${step}`)],
  ])("keepLast %s keeps %j", async (keepLast, expected) => {
    const directory = await temporaryFolder();
    await saveSteps(new CheckpointStore({ directory, keepLast, runId: "run" }), [1, 2, 3, 4]);
    expect(await foldersOf(directory)).toEqual(expected);
  });

  it("orders by the manifest's step, whatever the folders are called", async () => {
    const directory = await temporaryFolder();
    const store = new CheckpointStore({ directory, keepLast: null, runId: "run" });
    await saveSteps(store, [9, 10, 100]);
    await rename(join(directory, "step-000000000009"), join(directory, "step-000000000999"));
    expect((await store.list()).map(({ step, name }) => [step, name])).toEqual([
      [9, "step-000000000999"],
      [10, "step-000000000010"],
      [100, "step-000000000100"],
    ]);
    expect((await store.loadNewestGood())!.info.step).toBe(100);
    const next = new CheckpointStore({ directory, keepLast: 2, runId: "run" });
    await next.save(stateAt(101));
    expect(await foldersOf(directory)).toEqual(["step-000000000100", "step-000000000101"]);
  });

  it("a step saved again replaces its predecessor", async () => {
    const directory = await temporaryFolder();
    const store = new CheckpointStore({ directory, keepLast: 3, runId: "run" });
    await saveSteps(store, [1, 2]);
    const changed = { ...stateAt(2), config: { changed: true } };
    const saved = await store.save(changed);
    expect(await foldersOf(directory)).toEqual(["step-000000000001", "step-000000000002-2"]);
    const loaded = await store.loadNewestGood();
    expect(loaded!.info.path).toBe(saved.path);
    expect(loaded!.content.config).toEqual({ changed: true });
    await store.save(stateAt(2));
    expect(await foldersOf(directory)).toEqual(["step-000000000001", "step-000000000002"]);
  });

  it("a fresh run in a used folder neither deletes the old run's checkpoints nor loses its own", async () => {
    const directory = await temporaryFolder();
    await saveSteps(new CheckpointStore({ directory, keepLast: 2, runId: "old" }), [5, 1000, 2000]);
    const fresh = new CheckpointStore({ directory, keepLast: 2, runId: "fresh" });
    await saveSteps(fresh, [1, 2, 3, 1000]);
    expect((await fresh.list()).map(({ runId, step }) => `${runId} ${step}`)).toEqual([
      "fresh 3",
      "old 1000",
      "fresh 1000",
      "old 2000",
    ]);
    const loaded = await fresh.loadNewestGood();
    expect(loaded!.info).toMatchObject({ runId: "fresh", step: 1000, name: "step-000000001000-2" });
  });

  it("a run that goes back keeps what it saves now, not the higher steps it left", async () => {
    const directory = await temporaryFolder();
    const first = new CheckpointStore({ directory, keepLast: 3, runId: "run" });
    await saveSteps(first, [10, 20, 30]);
    const again = new CheckpointStore({ directory, keepLast: 3, runId: "unused" });
    again.continueFrom((await again.load(join(directory, "step-000000000010"))).info);
    await saveSteps(again, [11]);
    expect(again.runId).toBe("run");
    expect((await again.loadNewestGood())!.info).toMatchObject({
      step: 11,
      sequence: 4,
      manifest: { parent: { runId: "run", name: "step-000000000010", step: 10 } },
    });
    await saveSteps(again, [12, 13]);
    expect(await foldersOf(directory)).toEqual([11, 12, 13].map((step) => `step-0000000000${step}`));
  });

  it("does not continue a run that lies elsewhere under that run's id", async () => {
    const [elsewhere, directory] = [await temporaryFolder(), await temporaryFolder()];
    await saveSteps(new CheckpointStore({ directory: elsewhere, keepLast: 1, runId: "other" }), [7]);
    const store = new CheckpointStore({ directory, keepLast: 1, runId: "mine" });
    store.continueFrom((await store.load(elsewhere)).info);
    await saveSteps(store, [8]);
    expect((await store.loadNewestGood())!.info).toMatchObject({
      runId: "mine",
      manifest: { parent: { runId: "other", step: 7 } },
    });
  });

  it("runs saves asked for at once one after the other", async () => {
    const directory = await temporaryFolder();
    const store = new CheckpointStore({ directory, keepLast: 2, runId: "run" });
    await Promise.all([1, 2, 3].map((step) => store.save(stateAt(step))));
    expect((await store.list()).map(({ step, sequence }) => [step, sequence])).toEqual([
      [2, 2],
      [3, 3],
    ]);
  });

  it("finds nothing in a directory that does not exist", async () => {
    const store = new CheckpointStore({
      directory: join(await temporaryFolder(), "no"),
      keepLast: 2,
      runId: "run",
    });
    expect(await store.list()).toEqual([]);
    expect(await store.loadNewestGood()).toBeUndefined();
    expect(await store.sweep()).toEqual([]);
  });
});
