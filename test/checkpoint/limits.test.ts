// Faults of the Python system's checkpoints and tensors (numbers of its list), each as a test of the right behaviour.

import { readdirSync, truncateSync } from "node:fs";
import { cp, mkdir, readdir, readFile, truncate, writeFile } from "node:fs/promises";
import { join } from "node:path";

import { resolveConfig, type SyncCoordinator, trainFromConfig } from "speedtronic";
import {
  CheckpointStore,
  copyCheckpoint,
  loadCheckpoint,
  loadWeights,
  planLoad,
  verifyCheckpoint,
  weightsOfReader,
} from "speedtronic/checkpoint";
import { Linear, Module, Buffer as ModuleBuffer, ReferenceTransformer } from "speedtronic/nn";
import {
  encodeSafetensors,
  parseSafetensors,
  type SafetensorsDtype,
  type TensorInput,
} from "speedtronic/safetensors";
import type { TensorData } from "speedtronic/tensor";
import { expect, it } from "vitest";

import { bytesSource, openSafetensors } from "../../src/formats/safetensors/index.js";
import { encodeBfloat16 } from "../../src/util/half.js";
import { smallTransformer } from "../engine/fixtures.js";
import {
  bookFile,
  equalTensors,
  FormulaDataset,
  folderState,
  localTrainer,
  recordEvents,
  temporaryFolder,
  tinyConfig,
  weightHashes,
} from "../train/helpers.js";
import { richStateAt, stateAt } from "./state.js";

const at = (outputDir: string, step: number) =>
  join(outputDir, `checkpoints/step-${String(step).padStart(12, "0")}`);
const failure = (
  run: Promise<unknown>,
): Promise<Error & { code: string; details: Record<string, unknown> }> =>
  run.then(
    () => expect.fail("nothing was thrown"),
    (error) => error,
  );
const newStore = (keepLast: number | null = 3) =>
  new CheckpointStore({ directory: temporaryFolder(), keepLast, runId: "run" });
const weightsFile = async (tensors: readonly TensorInput[]) =>
  weightsOfReader(await openSafetensors(bytesSource(encodeSafetensors(tensors), "w.safetensors")));

it("L-76: a crash between checkpoint and pointer loses nothing: the newer one is found and verified", async () => {
  const store = newStore();
  await store.save(stateAt(1));
  const pointer = await readFile(join(store.directory, "latest.json"));
  await store.save(stateAt(2));
  await writeFile(join(store.directory, "latest.json"), pointer);
  expect((await store.loadNewestGood())!.info.step).toBe(2);
});

it("L-77: a damaged newest is passed over for the one before", async () => {
  const outputDir = temporaryFolder();
  await trainFromConfig(tinyConfig(outputDir));
  await truncate(join(at(outputDir, 4), "model.safetensors"), 50);
  const events = recordEvents();
  const { steps } = await trainFromConfig(tinyConfig(outputDir), { resume: true, hooks: [events.hook] });
  expect([steps, events.of("resume")[0]!.step]).toEqual([4, 2]);
});

it("L-78: a fresh run below the steps of an old one keeps its checkpoints, and they are what is resumed", async () => {
  const directory = temporaryFolder();
  const old = new CheckpointStore({ directory, keepLast: 1, runId: "old" });
  await old.save(stateAt(1000));
  const fresh = new CheckpointStore({ directory, keepLast: 1, runId: "fresh" });
  for (const step of [1, 2]) await fresh.save(stateAt(step));
  expect((await fresh.list()).map(({ runId, step }) => `${runId} ${step}`)).toEqual(["fresh 2", "old 1000"]);
  expect((await fresh.loadNewestGood())!.info).toMatchObject({ runId: "fresh", step: 2 });
});

it("L-79: a resume at the target neither starts the coordinator nor saves its unstarted state", async () => {
  const calls: string[] = [];
  const coordinator: SyncCoordinator = {
    start: () => void calls.push("start"),
    stop: () => void calls.push("stop"),
    afterOptimizerStep: () => false,
    stateDict: () => ({ baseline: calls.length }),
    loadStateDict: () => undefined,
  };
  const outputDir = temporaryFolder();
  await trainFromConfig(tinyConfig(outputDir), { coordinator });
  const before = await folderState(join(outputDir, "checkpoints"));
  calls.length = 0;
  await trainFromConfig(tinyConfig(outputDir), { coordinator, resume: true });
  expect(calls).toEqual([]);
  expect(await folderState(join(outputDir, "checkpoints"))).toEqual(before);
});

it("L-80: files and folders are synced, and nothing is deleted before the new one has been read back", async () => {
  const directory = temporaryFolder();
  const syncs: string[] = [];
  let damage: (() => void) | undefined;
  const store = new CheckpointStore({
    directory,
    keepLast: 1,
    runId: "run",
    onFileOperation: ({ kind, path }) => {
      if (kind === "sync") syncs.push(path);
      if (kind === "rename" && /step-0+2$/.test(path)) damage?.();
    },
  });
  const { path } = await store.save(stateAt(1));
  expect(syncs.filter((file) => /\.(json|safetensors)$/.test(file)).length).toBe(5);
  expect(syncs).toContain(directory);
  // The disk breaks its promise: what it gives back is not what was written.
  damage = () => {
    const hidden = readdirSync(directory).find((name) => name.startsWith(".tmp-"));
    truncateSync(join(directory, hidden!, "trainer.json"), 3);
  };
  const error = await failure(store.save(stateAt(2)));
  expect(error.code).toBe("checkpoint.corrupt");
  expect((await verifyCheckpoint(path)).step).toBe(1);
});

it("L-81: an interruption saves, and so does an error", async () => {
  const folder = temporaryFolder();
  const evaluated = new FormulaDataset(4);
  let reads = 0;
  const broken = Object.assign(Object.create(evaluated), {
    length: 4,
    get: (index: number) => {
      if (++reads > 4) throw new Error("the held-out text is gone");
      return evaluated.get(index);
    },
  });
  const run = await localTrainer({
    model: smallTransformer(),
    folder,
    everySteps: 100,
    maxSteps: 9,
    validation: { dataset: broken, batchSize: 2, everySteps: 3, maxBatches: null, isByteLevel: false },
  });
  await expect(run.trainer.fit()).rejects.toThrow("held-out text is gone");
  await run.close();
  expect((await loadCheckpoint(folder)).content.trainer).toMatchObject({ step: 6, samples: 12 });
});

it("L-82: the place in the data is restored: no sample twice, none left out", async () => {
  const [folder, seen] = [temporaryFolder(), [] as number[]];
  const dataset = new FormulaDataset(10);
  const recording = Object.assign(Object.create(dataset), {
    length: 10,
    get: (index: number) => {
      seen.push(index);
      return dataset.get(index);
    },
  });
  for (const maxSteps of [2, 5]) {
    const run = await localTrainer({ model: smallTransformer(), folder, dataset: recording, maxSteps });
    if (maxSteps === 5) await run.trainer.resume(await loadCheckpoint(folder));
    seen.length = 0;
    await run.trainer.fit();
    await run.close();
    if (maxSteps === 5) expect(seen.slice(0, 6)).toEqual([4, 5, 6, 7, 8, 9]);
  }
});

it("L-83: every random draw follows from the saved seed and counters", async () => {
  const [whole, cut] = [temporaryFolder(), temporaryFolder()];
  const config = (outputDir: string, max_steps: number) =>
    tinyConfig(outputDir, {
      run: { max_steps },
      model: { dropout: 0.5, vocab_size: 256 },
      data: { text_path: bookFile, validation_fraction: 0.9999, shuffle: true },
      evaluation: { max_batches: 1 },
      scheduler: { max_steps: 6 },
    });
  await trainFromConfig(config(whole, 6));
  await trainFromConfig(config(cut, 3));
  await trainFromConfig(config(cut, 6), { resume: true });
  expect(await weightHashes(cut, 6)).toEqual(await weightHashes(whole, 6));
  const { rng, counters } = (await loadCheckpoint(cut)).content.trainer;
  expect([rng, counters]).toEqual([
    { seed: 5 },
    { microbatches: 12, optimizerUpdates: 6, skippedUpdates: 0 },
  ]);
});

it("L-84: what was stored about model, data and optimiser is compared, refused or told", async () => {
  const outputDir = temporaryFolder();
  await trainFromConfig(tinyConfig(outputDir));
  const resumed = (changes: Parameters<typeof tinyConfig>[1]) => {
    const events = recordEvents();
    const config = tinyConfig(outputDir, { run: { max_steps: 5 }, ...changes });
    return trainFromConfig(config, { resume: true, hooks: [events.hook] }).then(
      () => events.of("resume")[0]!.notes!,
    );
  };
  expect(await failure(resumed({ model: { rope_base: 9 } }))).toMatchObject({
    code: "checkpoint.model_differs",
  });
  const notes = await resumed({ optimizer: { lr: 5 }, data: { shuffle: true } });
  for (const field of ["data.order.shuffle: saved false, now true", "optimizer.lr: saved 0.01, now 5"])
    expect(notes.some((note) => note.startsWith(field))).toBe(true);
});

it("L-85: a restore that cannot be finished has not begun", async () => {
  const folder = temporaryFolder();
  const first = await localTrainer({ model: smallTransformer(), folder, maxSteps: 2 });
  await first.trainer.fit();
  const loaded = await loadCheckpoint(folder);
  const model = new Map(loaded.content.model);
  model.delete("transformer.ln_f.weight");
  const second = await localTrainer({ model: smallTransformer({}, 3), folder });
  const before = await second.engine.readParameters();
  const spoiled = { ...loaded, content: { ...loaded.content, model } };
  expect(await failure(second.trainer.resume(spoiled))).toMatchObject({ code: "checkpoint.does_not_fit" });
  expect([await second.engine.readParameters(), second.trainer.step]).toEqual([before, 0]);
  await first.close();
  await second.close();
});

it("L-86: each part has its own file, and nothing is stored twice", async () => {
  const store = newStore();
  const { path } = await store.save(richStateAt(3));
  const { manifest } = (await loadCheckpoint(path)).info;
  expect(manifest.aliases).toEqual({ "lm_head.weight": "tok_emb.weight" });
  const sizes = Object.fromEntries(
    Object.entries(manifest.files).map(([name, file]) => [name, file.sizeBytes]),
  );
  // 24 floats each: two tensors of the model (the third is tied), two moments, and the coordinator's two values.
  const dataBytes = {
    "model.safetensors": 2 * 96,
    "optimizer.safetensors": 2 * 96,
    "coordinator.safetensors": 8,
  };
  for (const [name, bytes] of Object.entries(dataBytes)) {
    const view = parseSafetensors(await readFile(join(path, name)));
    expect([name, sizes[name]! - view.dataStart]).toEqual([name, bytes]);
  }
});

it("L-87: training waits for a copy only; the save is of that moment, whatever comes after", async () => {
  const events = recordEvents();
  const folder = temporaryFolder();
  const run = await localTrainer({ model: smallTransformer(), folder, everySteps: 1, maxSteps: 4, events });
  await run.trainer.fit();
  const checkpoints = events.of("checkpoint");
  expect(checkpoints.map(({ step }) => step)).toEqual([1, 2, 3, 4]);
  // The last one ends the run: nobody waits.
  expect(checkpoints.map(({ stall_s }) => typeof stall_s)).toEqual([
    "number",
    "number",
    "number",
    "undefined",
  ]);
  for (const step of [1, 2, 3]) {
    const alone = await localTrainer({ model: smallTransformer(), maxSteps: step });
    await alone.trainer.fit();
    const saved = (await loadCheckpoint(join(folder, `step-00000000000${step}`))).content.model;
    const parameters = await alone.engine.readParameters();
    const names = [...parameters.keys()];
    expect(equalTensors(new Map(names.map((name) => [name, saved.get(name)!])), parameters)).toEqual(names);
    await alone.close();
  }
  await run.close();
});

it("L-88: a save that fails leaves nothing behind", async () => {
  let isFull = false;
  const directory = temporaryFolder();
  const onFileOperation = ({ path }: { path: string }) => {
    if (isFull && path.endsWith("config.json"))
      throw Object.assign(new Error("no space"), { code: "ENOSPC" });
  };
  const store = new CheckpointStore({ directory, keepLast: 2, runId: "run", onFileOperation });
  await store.save(stateAt(1));
  const before = (await readdir(directory)).sort();
  isFull = true;
  expect(await failure(store.save(stateAt(2)))).toMatchObject({ code: "checkpoint.disk_full" });
  expect((await readdir(directory)).sort()).toEqual(before);
});

it("L-89: a copy is whole and verified or not there; limits of 0 are refused", async () => {
  const store = newStore();
  await store.save(richStateAt(1));
  const target = join(temporaryFolder(), "kept/best");
  const info = await copyCheckpoint(store.directory, target);
  expect((await verifyCheckpoint(target)).manifest).toEqual(info.manifest);
  expect((await loadCheckpoint(target)).content.trainer).toEqual(richStateAt(1).trainer);
  expect(await failure(copyCheckpoint(store.directory, target))).toMatchObject({ code: "checkpoint.exists" });
  await copyCheckpoint(store.directory, target, { overwrite: true });
  expect(await readdir(join(target, ".."))).toEqual(["best"]);
  await mkdir(join(target, "../pictures"));
  const overPictures = copyCheckpoint(store.directory, join(target, "../pictures"), { overwrite: true });
  expect(await failure(overPictures)).toMatchObject({ code: "checkpoint.corrupt" });
  const source = (await store.list())[0]!.path;
  await truncate(join(source, "optimizer.safetensors"), 10);
  expect(await failure(copyCheckpoint(source, join(target, "../other")))).toMatchObject({
    code: "checkpoint.corrupt",
  });
  expect((await readdir(join(target, ".."))).sort()).toEqual(["best", "pictures"]);
  expect(() => newStore(0)).toThrow(/keep_last is 0/);
  const options = { directory: "x", keepLast: 1, runId: "run" };
  expect(() => new CheckpointStore({ ...options, keepEvery: 0 })).toThrow(/keep_every is 0/);
  expect(() => new CheckpointStore({ ...options, keepBest: -1 })).toThrow(/keep_best is -1/);
});

it("L-90: a checkpoint can be read with nothing but the two formats' own rules", async () => {
  const { path } = await newStore().save(stateAt(5));
  const bytes = await readFile(join(path, "model.safetensors"));
  const headerBytes = Number(bytes.readBigUInt64LE(0));
  const header = JSON.parse(bytes.subarray(8, 8 + headerBytes).toString("utf8"));
  const [begin] = header["norm.weight"].data_offsets;
  expect(bytes.readFloatLE(8 + headerBytes + begin)).toBe(stateAt(5).model.get("norm.weight")!.data[0]);
  expect(JSON.parse(await readFile(join(path, "trainer.json"), "utf8"))).toMatchObject({
    step: 5,
    samples: 40,
  });
});

it("L-91: moments survive a synchronisation, so a checkpoint right after one holds them", async () => {
  const folder = temporaryFolder();
  const coordinator: SyncCoordinator = {
    start: () => undefined,
    stop: () => undefined,
    afterOptimizerStep: () => true,
    stateDict: () => null,
    loadStateDict: () => undefined,
  };
  const { reset_inner_optimizer: resetInnerOptimizer } = resolveConfig({}).distributed;
  const model = smallTransformer();
  const run = await localTrainer({
    model,
    folder,
    coordinator,
    maxSteps: 2,
    everySteps: 1,
    resetInnerOptimizer,
  });
  await run.trainer.fit();
  await run.close();
  const { optimizer } = (await loadCheckpoint(folder)).content;
  expect([...optimizer.values()].every(({ data }) => data.some((value) => value !== 0))).toBe(true);
});

it("L-92: names that wrappers changed are mapped on load", async () => {
  const source = smallTransformer({}, 5);
  const tensors = [...source.stateDict()].map(([name, { shape, data }]) => ({
    name: `module._orig_mod.${name}`,
    dtype: "F32" as const,
    shape,
    data,
  }));
  const model = smallTransformer({}, 1);
  const report = await loadWeights(model, await weightsFile(tensors));
  expect(report).toMatchObject({ missing: [], unexpected: [], mismatched: [], initial: [] });
  expect(equalTensors(source.stateDict(), model.stateDict()).length).toBe(report.loaded.length);
});

it("L-93: weights of narrow floats become float32 and stay so: small updates are not rounded away", async () => {
  const model = smallTransformer({}, 1);
  const tensors = [...model.stateDict()].map(([name, { shape, data }]) => ({
    name,
    dtype: "BF16" as const,
    shape,
    data: encodeBfloat16(data as Float32Array),
  }));
  await loadWeights(model, await weightsFile(tensors));
  const folder = temporaryFolder();
  // One step of this size is far below the precision of bfloat16 at 1.
  const run = await localTrainer({ model, folder, lr: 1e-5, maxSteps: 1 });
  await run.trainer.fit();
  await run.close();
  const norm = (await loadCheckpoint(folder)).content.model.get("transformer.ln_f.weight")!;
  expect(norm.dtype).toBe("float32");
  for (const value of norm.data) expect(Math.abs(Math.abs(value - 1) - 1e-5)).toBeLessThan(1e-6);
});

it("L-94: complex values are refused by name, float8 weights are widened", async () => {
  const model = new Linear(2, 2, { bias: false });
  const tensor = (dtype: SafetensorsDtype, data: ArrayBufferView) => ({
    name: "weight",
    dtype,
    shape: [2, 2],
    data,
  });
  const complex = await weightsFile([tensor("C64", new Float32Array(8))]);
  const error = await failure(loadWeights(model, complex));
  expect(error.code).toBe("checkpoint.does_not_fit");
  expect(error.message).toContain("weight: model has float32[2, 2], the file C64[2, 2]");
  // 128 bits per value are in no dtype of the format, so no such file can be written either.
  expect(() => encodeSafetensors([tensor("C128" as SafetensorsDtype, new Float64Array(8))])).toThrow(
    /unknown dtype "C128"/,
  );
  // 1, -2, 0.5 and 448 in E4M3.
  const narrow = await weightsFile([tensor("F8_E4M3", Uint8Array.of(0x38, 0xc0, 0x30, 0x7e))]);
  await loadWeights(model, narrow);
  expect([...model.stateDict().get("weight")!.data]).toEqual([1, -2, 0.5, 448]);
});

it("L-97: the same state gives the same bytes, whatever the order and the time", async () => {
  const [first, second] = [newStore(), newStore()];
  const content = richStateAt(3);
  const a = await first.save(content);
  const reversed = {
    ...content,
    model: new Map([...content.model].sort(([x], [y]) => (x < y ? 1 : -1))),
    optimizer: new Map([...content.optimizer].reverse()),
  };
  const b = await second.save(reversed);
  const files = (await readdir(a.path)).filter((name) => name.endsWith(".safetensors"));
  expect(files.length).toBe(3);
  // Which of two tied names is the first is part of the state; the values' bytes are the same.
  for (const file of files.filter((name) => name !== "model.safetensors"))
    expect(await readFile(join(a.path, file))).toEqual(await readFile(join(b.path, file)));
  const tensors = (names: readonly string[]) =>
    names.map(
      (name): TensorInput => ({ name, dtype: "F32", shape: [1], data: Float32Array.of(name.length) }),
    );
  expect(encodeSafetensors(tensors(["a", "bb"]), { x: "1", y: "2" })).toEqual(
    encodeSafetensors(tensors(["bb", "a"]), { y: "2", x: "1" }),
  );
});

it("L-98: state outside tensors has a place; what is no plain data is refused by its path", async () => {
  class Counting extends Module {
    readonly inner = new Linear(1, 1);
    readonly table = new ModuleBuffer(
      { dtype: "float32", shape: [1], data: Float32Array.of(9) },
      { persistent: false },
    );
    seen: unknown = 4;
    override getExtraState = () => ({ seen: this.seen }) as never;
    override setExtraState = (state: unknown) => {
      this.seen = (state as { seen: unknown }).seen;
    };
  }
  const [store, model] = [newStore(), new Counting()];
  const content = () => ({ ...stateAt(1), model: model.stateDict(), modules: model.extraState() as never });
  const { path } = await store.save(content());
  expect([...(await loadCheckpoint(path)).content.model.keys()]).toEqual(["inner.bias", "inner.weight"]);
  const fresh = new Counting();
  fresh.seen = 0;
  fresh.loadExtraState((await loadCheckpoint(path)).content.modules as never);
  expect([fresh.seen, [...fresh.table.value.data]]).toEqual([4, [9]]);
  expect(() => fresh.loadExtraState({})).toThrow(/no state for ""/);
  expect(() => new Linear(1, 1).loadExtraState({ inner: 1 })).toThrow(/no place for the state of "inner"/);
  model.seen = () => 1;
  const error = await failure(store.save(content()));
  expect(error).toMatchObject({ code: "checkpoint.not_plain_data" });
  expect(error.message).toMatch(/modules\.\.seen: it is a function/);
});

it("every format version that was ever written is still read", async () => {
  const fixtures = join(import.meta.dirname, "../fixtures/checkpoint-formats");
  const versions = (await readdir(fixtures)).sort();
  expect(versions).toEqual(["v1", "v2"]);
  for (const version of versions) {
    const run = temporaryFolder();
    await cp(join(fixtures, version), run, { recursive: true });
    const { content, info } = await loadCheckpoint(run);
    const expected = version === "v1" ? stateAt(7, 8) : richStateAt(7, 8);
    expect(info.manifest.formatVersion).toBe(Number(version.slice(1)));
    expect(info.validationLoss).toBe(expected.trainer.validation?.loss ?? null);
    expect(content.trainer).toEqual(expected.trainer);
    expect([content.modules, content.config]).toEqual([expected.modules, expected.config]);
    const plain = (tensors: ReadonlyMap<string, TensorData>) =>
      Object.fromEntries([...tensors].map(([name, { shape, data }]) => [name, [[...shape], [...data]]]));
    for (const part of ["model", "optimizer", "coordinator"] as const)
      expect(plain(content[part] ?? new Map())).toEqual(plain(expected[part] ?? new Map()));
  }
});

it("a plan for loading changes nothing", async () => {
  const model = new ReferenceTransformer({
    vocabSize: 7,
    blockSize: 8,
    nLayer: 1,
    nHead: 1,
    dModel: 4,
    dFf: 8,
  });
  const tensors = [...model.stateDict()].map(([name, { shape, data }]) => ({
    name,
    dtype: "F32" as const,
    shape,
    data: data.map(() => 7),
  }));
  const { report, sources } = await planLoad(model, await weightsFile(tensors));
  expect(report.loaded.toSorted()).toEqual([...model.stateDict().keys()].sort());
  expect(sources.size).toBe(model.namedParameters().size);
  expect([...model.stateDict().values()].every(({ data }) => data.every((value) => value === 0))).toBe(true);
});
