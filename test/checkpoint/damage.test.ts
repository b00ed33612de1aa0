// Damaged, incomplete and foreign things in the directory: what is refused, in which words, and what is used instead.

import { createHash } from "node:crypto";
import { cp, mkdir, readdir, readFile, rm, symlink, truncate, writeFile } from "node:fs/promises";
import { join } from "node:path";

import { describe, expect, it } from "vitest";

import { CheckpointStore, loadCheckpoint, loadModel } from "../../src/checkpoint/index.js";
import { encodeJson } from "../../src/checkpoint/json-values.js";
import { comparable, stateAt, temporaryFolder } from "./fixtures.js";

const files = ["model.safetensors", "optimizer.safetensors", "trainer.json", "config.json", "manifest.json"];

async function savedSteps(steps: readonly number[]): Promise<{ directory: string; store: CheckpointStore }> {
  const directory = await temporaryFolder();
  const store = new CheckpointStore({ directory, keepLast: null, runId: "run" });
  for (const step of steps) await store.save(stateAt(step));
  return { directory, store };
}

async function flipBit(path: string, position: number, bit = 3): Promise<void> {
  const bytes = await readFile(path);
  bytes[position]! ^= 1 << bit;
  await writeFile(path, bytes);
}

/** Changes a manifest as another writer would: with a checksum that holds. */
async function editManifest(folder: string, change: Record<string, unknown>): Promise<void> {
  const path = join(folder, "manifest.json");
  const { checksum: _, ...rest } = { ...JSON.parse(await readFile(path, "utf8")), ...change };
  const checksum = createHash("sha256").update(encodeJson(rest, "manifest")).digest("hex");
  await writeFile(path, encodeJson({ ...rest, checksum }, "manifest"));
}

const damages: [string, (path: string) => Promise<void>, RegExp][] = [
  ["truncated", (path) => truncate(path, 20), /truncated: have 20 of \d+ bytes|manifest is not valid JSON/],
  ["flipped", (path) => flipBit(path, 40), /changed or damaged after it was written|not valid JSON/],
  ["missing", (path) => rm(path), /the file is missing|has no manifest\.json/],
];

describe("damage to the newest checkpoint", () => {
  for (const file of files) {
    it.each(damages)(`${file} %s: the one before is used, and it is said`, async (_, damage, reason) => {
      const { directory } = await savedSteps([1, 2]);
      const newest = join(directory, "step-000000000002");
      await damage(join(newest, file));
      const warnings: string[] = [];
      const onWarning = (message: string) => warnings.push(message);
      const store = new CheckpointStore({ directory, keepLast: 3, runId: "run", onWarning });
      const loaded = await store.loadNewestGood();
      expect(loaded!.info.step).toBe(1);
      expect(comparable(loaded!.content)).toEqual(comparable(stateAt(1)));
      expect(loaded!.skipped).toEqual([{ path: newest, reason: expect.stringMatching(reason) }]);
      expect(loaded!.skipped[0]!.reason).toContain(newest);
      expect(warnings).toHaveLength(1);
      await expect(store.load(newest)).rejects.toMatchObject({ code: "checkpoint.corrupt", exitCode: 4 });
    });
  }

  it("no flipped bit of a whole checkpoint goes unnoticed", async () => {
    const { directory } = await savedSteps([1]);
    const folder = join(directory, "step-000000000001");
    for (const file of files) {
      const path = join(folder, file);
      const original = await readFile(path);
      const stride = Math.max(1, Math.floor(original.byteLength / 40));
      for (let position = 0; position < original.byteLength; position += stride) {
        await flipBit(path, position, position % 8);
        const expected = comparable(stateAt(1));
        const outcome = await loadCheckpoint(folder).then(
          ({ content }) => comparable(content),
          (error) => error.code,
        );
        // White space between JSON tokens can change without a change of meaning.
        if (outcome !== "checkpoint.corrupt")
          expect([file, position, outcome]).toEqual([file, position, expected]);
        await writeFile(path, original);
      }
    }
  });

  it("a damaged generation is not counted as one that is kept", async () => {
    const { directory } = await savedSteps([1, 2, 3]);
    await flipBit(join(directory, "step-000000000003", "model.safetensors"), 200);
    const store = new CheckpointStore({ directory, keepLast: 2, runId: "other" });
    const { info } = (await store.loadNewestGood())!;
    store.continueFrom(info);
    await store.save(stateAt(4));
    expect((await store.list()).map(({ step }) => step)).toEqual([2, 3, 4]);
  });

  it("is an error, not a fresh start, when none is intact", async () => {
    const { directory, store } = await savedSteps([1, 2]);
    for (const step of [1, 2])
      await truncate(join(directory, `step-00000000000${step}`, "optimizer.safetensors"), 5);
    await expect(store.loadNewestGood()).rejects.toMatchObject({
      code: "checkpoint.none_intact",
      exitCode: 4,
      message: expect.stringMatching(/have 5 of \d+ bytes.*have 5 of \d+ bytes/s),
    });
  });

  it("never falls back to another run, but names it", async () => {
    const { directory } = await savedSteps([100]);
    const store = new CheckpointStore({ directory, keepLast: 3, runId: "second" });
    await store.save(stateAt(1));
    await rm(join(directory, "step-000000000001", "trainer.json"));
    await expect(store.loadNewestGood()).rejects.toThrow(/Another run.*step-000000000100/);
  });
});

describe("the pointer", () => {
  it.each([
    ["names a folder that is gone", { file: "step-000000000009" }, /step-000000000009, which does not exist/],
    ["leads out of the directory", { file: "../step-000000000002" }, /not the name of a checkpoint folder/],
    ["names an absolute path", { file: "/etc" }, /not the name of a checkpoint folder/],
    ["has no file", { file: null }, /names null/],
  ])("is ignored and reported when it %s", async (_, change, reason) => {
    const { directory, store } = await savedSteps([1, 2]);
    const path = join(directory, "latest.json");
    await writeFile(path, JSON.stringify({ ...JSON.parse(await readFile(path, "utf8")), ...change }));
    const loaded = await store.loadNewestGood();
    expect(loaded!.info.step).toBe(2);
    expect(loaded!.skipped).toEqual([{ path, reason: expect.stringMatching(reason) }]);
  });

  it.each([["not JSON"], [""], ["null"], ["[]"]])("is ignored when its text is %j", async (text) => {
    const { directory, store } = await savedSteps([1, 2]);
    await writeFile(join(directory, "latest.json"), text);
    expect((await store.loadNewestGood())!.info.step).toBe(2);
  });

  it("is not needed", async () => {
    const { directory, store } = await savedSteps([1, 2]);
    await rm(join(directory, "latest.json"));
    const loaded = await store.loadNewestGood();
    expect([loaded!.info.step, loaded!.skipped]).toEqual([2, []]);
  });

  it("that stayed behind does not hide a checkpoint saved after it", async () => {
    const { directory, store } = await savedSteps([1, 2]);
    const path = join(directory, "latest.json");
    const behind = await readFile(path);
    await store.save(stateAt(3));
    await writeFile(path, behind);
    expect((await store.loadNewestGood())!.info.step).toBe(3);
  });

  it("decides the run, and after a return to an early step that branch comes first", async () => {
    const { directory, store } = await savedSteps([10, 20, 30]);
    const again = new CheckpointStore({ directory, keepLast: null, runId: "run" });
    again.continueFrom((await store.load(join(directory, "step-000000000010"))).info);
    await again.save(stateAt(11));
    await rm(join(directory, "step-000000000011", "manifest.json"));
    expect((await again.loadNewestGood())!.info.step).toBe(10);
  });

  it("to a link that leads elsewhere loads nothing from there", async () => {
    const { directory: elsewhere } = await savedSteps([7]);
    const directory = await temporaryFolder();
    await symlink(join(elsewhere, "step-000000000007"), join(directory, "step-000000000007"));
    await writeFile(
      join(directory, "latest.json"),
      JSON.stringify({ step: 7, file: "step-000000000007", runId: "run", sequence: 1 }),
    );
    const store = new CheckpointStore({ directory, keepLast: 3, runId: "run" });
    await expect(store.loadNewestGood()).rejects.toMatchObject({ code: "checkpoint.none_intact" });
    const saved = await store.save(stateAt(7));
    expect(saved.path).toBe(join(directory, "step-000000000007-2"));
  });
});

describe("formats", () => {
  it("refuses a newer format version by name instead of going back behind it", async () => {
    const { directory, store } = await savedSteps([1, 2]);
    await editManifest(join(directory, "step-000000000002"), { formatVersion: 3 });
    await expect(store.loadNewestGood()).rejects.toMatchObject({
      code: "checkpoint.newer_format",
      message: expect.stringMatching(/format version 3, but this release reads versions up to 2/),
    });
    expect((await store.load(join(directory, "step-000000000001"))).info.step).toBe(1);
  });

  it("does not resume from a folder that holds weights alone, but reads its model", async () => {
    const { directory, store } = await savedSteps([1]);
    const folder = join(directory, "step-000000000001");
    await editManifest(folder, { kind: "weights" });
    await expect(store.load(folder)).rejects.toMatchObject({ code: "checkpoint.weights_only" });
    await expect(store.loadNewestGood()).rejects.toMatchObject({ code: "checkpoint.none_intact" });
    expect((await loadModel(folder)).content.model.size).toBe(3);
  });

  it("refuses tied tensors whose values differ", async () => {
    const directory = await temporaryFolder();
    const content = stateAt(1);
    const model = new Map(
      [...content.model].map(([name, tensor]) => [name, { ...tensor, data: tensor.data.slice() }]),
    );
    model.get("lm_head.weight")!.data[0] = 99;
    const store = new CheckpointStore({ directory, keepLast: 1, runId: "run" });
    const { path } = await store.save({ ...content, model });
    expect(comparable((await store.load(path)).content)).toEqual(comparable({ ...content, model }));
    await editManifest(path, { aliases: { "lm_head.weight": "tok_emb.weight" } });
    await expect(store.load(path)).rejects.toThrow(
      /"lm_head.weight" and "tok_emb.weight" are tied but their values/,
    );
  });
});

describe("leftovers", () => {
  it("of dead writers are swept and never loaded; those of the living and other files stay", async () => {
    const { directory, store } = await savedSteps([1]);
    const names = async () => (await readdir(directory)).sort();
    const before = await names();
    let ownTemporary = "";
    const spy = new CheckpointStore({
      directory,
      keepLast: 1,
      runId: "spy",
      onFileOperation: ({ kind, path }) => {
        if (kind === "mkdir" && path.includes(".tmp-")) ownTemporary = path;
      },
    });
    await spy.save(stateAt(2));
    await rm(join(directory, "step-000000000002"), { recursive: true });
    await writeFile(join(directory, "latest.json"), "{}");
    // The same place, a process id that cannot exist, and a whole checkpoint inside: still not one.
    const dead = ownTemporary.replace(`-${process.pid}-`, "-99999999-");
    await cp(join(directory, "step-000000000001"), dead, { recursive: true });
    const living = ownTemporary.replace(/-\d+-\d+-/, `-${process.ppid}-0-`);
    await mkdir(living);
    const elsewhere = join(directory, ".tmp-00000000-1-1-00000000-1-new");
    await mkdir(elsewhere);
    await writeFile(join(directory, "notes.txt"), "mine");
    expect((await store.loadNewestGood())!.info.step).toBe(1);
    expect((await store.list()).map(({ step }) => step)).toEqual([1]);
    const nameOf = (path: string) => path.slice(directory.length + 1);
    expect(await store.sweep()).toEqual([nameOf(dead)]);
    const lock = await store.lock();
    expect(await store.sweep()).toEqual([nameOf(elsewhere)]);
    await lock.release();
    expect(await names()).toEqual([...before, "notes.txt", nameOf(living)].sort());
  });
});
