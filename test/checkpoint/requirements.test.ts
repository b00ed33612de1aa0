// The sixteen requirements on checkpoints (R1 to R16), one test each, through the public API and on real files.

import { readdir, readFile, rm, truncate, writeFile } from "node:fs/promises";
import { join } from "node:path";

import { buildRuntime, type CheckpointError, DataError, resolveConfig, trainFromConfig } from "speedtronic";
import {
  CheckpointStore,
  type Fingerprint,
  judgeResume,
  loadCheckpoint,
  loadWeights,
  openCheckpoint,
  openModel,
  saveWeightsFolder,
  weightsOfReader,
} from "speedtronic/checkpoint";
import type { LoadedBatch } from "speedtronic/data";
import { openSafetensorsFile, saveSafetensors } from "speedtronic/safetensors";
import { constant, evaluate, type TensorData } from "speedtronic/tensor";
import { loadTrainedModel } from "speedtronic/train";
import { expect, it } from "vitest";

import { bytesSource } from "../../src/formats/safetensors/index.js";
import { readTorchFile } from "../../src/formats/torch/index.js";
import { smallTransformer } from "../engine/fixtures.js";
import { asm, call, pickle, torchZip } from "../formats/torch-craft.js";
import {
  copyOf,
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
const failure = (run: Promise<unknown>): Promise<CheckpointError> =>
  run.then(
    () => expect.fail("nothing was thrown"),
    (error) => error,
  );

it("R1: a checkpoint knows what its tensors mean; another meaning is refused field by field, tables are rebuilt", async () => {
  const outputDir = temporaryFolder();
  await trainFromConfig(tinyConfig(outputDir, { run: { max_steps: 2 } }));
  const { fingerprint } = (await loadCheckpoint(outputDir)).info.manifest;
  expect(fingerprint.model).toMatchObject({
    n_head: 2,
    n_kv_head: 2,
    rope_base: 10000,
    tied: ["lm_head.weight = transformer.wte.weight"],
    dtype: "float32",
    layout: "whole tensors, row-major",
    tokenizer: { kind: "byte", vocab_size: 16 },
  });

  // Both settings leave names and shapes as they are.
  const changed = tinyConfig(outputDir, { run: { max_steps: 4 }, model: { n_head: 1, rope_base: 500 } });
  const error = await failure(trainFromConfig(changed, { resume: true }));
  expect(error).toMatchObject({ code: "checkpoint.model_differs", exitCode: 4 });
  expect(error.message).toContain(
    "n_head: saved 2, now 1; n_kv_head: saved 2, now 1; rope_base: saved 10000, now 500",
  );
  const half = await failure(trainFromConfig(changed, { resume: true, acceptDifferences: ["rope_base"] }));
  expect(half.message).toMatch(/n_head: saved 2, now 1; n_kv_head: saved 2, now 1\. Set/);
  const events = recordEvents();
  const acceptDifferences = ["rope_base", "model.n_head", "n_kv_head", "d_model"];
  const result = await trainFromConfig(changed, { resume: true, acceptDifferences, hooks: [events.hook] });
  expect(result.steps).toBe(4);
  expect(events.of("resume")[0]!.notes).toEqual([
    "n_head: saved 2, now 1; accepted, the configuration's value is used from here on",
    "n_kv_head: saved 2, now 1; accepted, the configuration's value is used from here on",
    "rope_base: saved 10000, now 500; accepted, the configuration's value is used from here on",
    "d_model: accepted as different, but it is not",
    'the learning rate decays until step 4 instead of 2: it is at its floor of 0.1 of the peak and stays there; scheduler.moved_end "rewarm" raises it again',
  ]);

  // The rotary table stands in no file: a loaded model must compute the very same logits.
  const runtime = await buildRuntime(tinyConfig(temporaryFolder(), { model: { rope_base: 77 } }));
  await runtime.trainer.fit();
  const ids = { dtype: "int32" as const, shape: [1, 8], data: Int32Array.from([1, 2, 3, 4, 5, 6, 7, 0]) };
  const logits = (model: typeof runtime.model) =>
    evaluate(model.forward({ input_ids: constant(ids) }).logits!).data;
  const { model, checkpoint } = await loadTrainedModel(runtime.config.run.output_dir);
  expect(logits(model)).toEqual(logits(runtime.model));
  const names = (await openModel(checkpoint.path)).content;
  expect([...names.model.entries.keys()].filter((name) => /cos|sin|rope|rotary/.test(name))).toEqual([]);
  await names.close();
  await runtime.close();
});

it("R2: missing, unexpected and mismatched tensors are errors unless a pattern allows them, and all are told", async () => {
  const path = join(temporaryFolder(), "model.safetensors");
  // Norms start as ones in every model: shifted, so that each tensor differs from the other model's.
  const state = copyOf(smallTransformer({}, 7).stateDict());
  for (const { data } of state.values()) for (let i = 0; i < data.length; i += 1) data[i]! += 0.5;
  const [first, second] = [...state.keys()].filter((name) => name.includes("layers") || name.includes("h."));
  const renamed = new Map([...state].map(([name, value]) => [name === first ? `old.${name}` : name, value]));
  renamed.set(second!, { dtype: "float32", shape: [1], data: new Float32Array(1) });
  await saveSafetensors(asFile(renamed), path);
  const reader = await openSafetensorsFile(path);
  const model = smallTransformer({}, 1);
  const before = copyOf(model.stateDict());
  const error = await failure(loadWeights(model, weightsOfReader(reader)));
  expect(error).toMatchObject({
    code: "checkpoint.does_not_fit",
    details: { missing: [first], unexpected: [`old.${first}`], mismatched: [{ name: second }] },
  });
  expect(equalTensors(before, model.stateDict()).length).toBe(before.size);

  const report = await loadWeights(model, weightsOfReader(reader), {
    allowMissing: [first!],
    allowUnexpected: ["old.*"],
    allowMismatch: ["*"],
  });
  expect(report).toMatchObject({ missing: [first], unexpected: [`old.${first}`], initial: [first, second] });
  const same = equalTensors(state, model.stateDict());
  expect(same).not.toContain(first);
  expect(same).not.toContain(second);
  expect(same.length).toBe(state.size - 2);
  await reader.close();
});

it("R3 L-64: every file of a checkpoint is safetensors or JSON; nothing in it can run", async () => {
  const directory = temporaryFolder();
  const { path } = await new CheckpointStore({ directory, keepLast: 1, runId: "run" }).save(richStateAt(3));
  const files = (await readdir(path)).sort();
  expect(files.length).toBe(8);
  for (const file of files) {
    if (file.endsWith(".json")) JSON.parse(await readFile(join(path, file), "utf8"));
    else {
      const reader = await openSafetensorsFile(join(path, file));
      for (const name of reader.entries.keys()) await reader.read(name);
      await reader.close();
    }
  }
  expect(files.every((file) => /\.(json|safetensors)$/.test(file))).toBe(true);
});

it("R4: a resume is exact, and weights alone never pass for a checkpoint", async () => {
  const [whole, cut] = [temporaryFolder(), temporaryFolder()];
  const config = (outputDir: string, max_steps: number) =>
    tinyConfig(outputDir, {
      run: { max_steps },
      model: { dropout: 0.2 },
      data: { shuffle: true },
      // The rate depends on the step alone, not on where the run was to end at first.
      scheduler: { max_steps: 6 },
    });
  await trainFromConfig(config(whole, 6));
  await trainFromConfig(config(cut, 3));
  await trainFromConfig(config(cut, 6), { resume: true });
  expect(await weightHashes(cut, 6)).toEqual(await weightHashes(whole, 6));

  const { content } = await loadCheckpoint(whole);
  const outputDir = temporaryFolder();
  const { manifest } = await saveWeightsFolder(join(outputDir, "checkpoints/step-000000000006"), content);
  expect([manifest.kind, Object.keys(manifest.files).sort()]).toEqual([
    "weights",
    ["config.json", "model.safetensors"],
  ]);
  expect(await failure(loadCheckpoint(at(outputDir, 6)))).toMatchObject({ code: "checkpoint.weights_only" });
  expect(await failure(trainFromConfig(config(outputDir, 8), { resume: true }))).toMatchObject({
    code: "checkpoint.none_intact",
    message: expect.stringContaining("holds model weights alone"),
  });
  // For use it is as good as any.
  expect((await loadTrainedModel(at(outputDir, 6))).model.parameterCount()).toBeGreaterThan(100);
});

it("R5: prefixes of wrappers are taken away on load and never written", async () => {
  const path = join(temporaryFolder(), "wrapped.safetensors");
  const source = smallTransformer({}, 7);
  const wrapped = [...source.stateDict()].map(([name, value], i) => {
    const inner = i % 2 ? name.replace(/\./, "._fsdp_wrapped_module.") : name;
    return [`_orig_mod.module.${inner}`, value] as const;
  });
  await saveSafetensors(asFile(new Map(wrapped)), path);
  const reader = await openSafetensorsFile(path);
  const model = smallTransformer({}, 1);
  const report = await loadWeights(model, weightsOfReader(reader));
  await reader.close();
  expect(report.renamed.length).toBe(wrapped.length);
  expect(equalTensors(source.stateDict(), model.stateDict()).length).toBe(wrapped.length);
  const outputDir = temporaryFolder();
  await trainFromConfig(tinyConfig(outputDir, { run: { max_steps: 1 } }));
  const { content } = await openModel(outputDir);
  for (const name of content.model.entries.keys()) expect(name).not.toMatch(/module\.|_orig_mod/);
  await content.close();
});

it("R6: written, synced, read back, and only then an older one goes; a bad newest falls back and says so", async () => {
  const outputDir = temporaryFolder();
  await trainFromConfig(tinyConfig(outputDir));
  await truncate(join(at(outputDir, 4), "optimizer.safetensors"), 100);
  const events = recordEvents();
  await trainFromConfig(tinyConfig(outputDir, { run: { max_steps: 3 } }), {
    resume: true,
    hooks: [events.hook],
  });
  expect(events.of("resume")[0]).toMatchObject({
    step: 2,
    skipped: [{ path: at(outputDir, 4), reason: expect.stringContaining("truncated: have 100 of") }],
  });
  expect(events.of("warning")[0]!.message).toContain("passed over");

  const seen: string[] = [];
  const store = new CheckpointStore({
    directory: temporaryFolder(),
    keepLast: 1,
    runId: "run",
    onFileOperation: ({ kind, path }) =>
      seen.push(
        `${kind} ${path
          .split(/[\\/]/)
          .at(-1)!
          .replace(/^\.tmp.*-/, "tmp-")}`,
      ),
  });
  await store.save(stateAt(1));
  seen.length = 0;
  await store.save(stateAt(2));
  const order = [
    "sync model.safetensors",
    "sync manifest.json",
    "rename step-000000000002",
    "rename latest.json",
    "rename tmp-old",
  ];
  expect(order.map((operation) => seen.indexOf(operation))).toEqual(
    order.map((operation) => seen.indexOf(operation)).sort((a, b) => a - b),
  );
  expect(order.every((operation) => seen.includes(operation))).toBe(true);
});

it("R7: a fresh run in a used folder keeps its own checkpoints, and the old run's stay", async () => {
  const outputDir = temporaryFolder();
  await trainFromConfig(tinyConfig(outputDir, { run: { max_steps: 6 } }));
  await trainFromConfig(
    tinyConfig(outputDir, { run: { max_steps: 3 }, checkpoint: { every_steps: 1, keep_last: 2 } }),
  );
  expect((await readdir(join(outputDir, "checkpoints"))).sort()).toEqual([
    "latest.json",
    "step-000000000002",
    "step-000000000002-2",
    "step-000000000003",
    "step-000000000004",
    "step-000000000006",
  ]);
  expect((await loadCheckpoint(outputDir)).info.step).toBe(3);
});

it("R8: without a step done nothing is written again", async () => {
  const outputDir = temporaryFolder();
  await trainFromConfig(tinyConfig(outputDir));
  const before = await folderState(join(outputDir, "checkpoints"));
  const result = await trainFromConfig(tinyConfig(outputDir), { resume: true });
  expect([result.steps, result.finalLoss]).toEqual([4, null]);
  // Neither does a run that is stopped before its first step.
  const stopped = AbortSignal.abort("SIGTERM");
  await trainFromConfig(tinyConfig(outputDir, { run: { max_steps: 9 } }), { resume: true, signal: stopped });
  expect(await folderState(join(outputDir, "checkpoints"))).toEqual(before);
});

it.each(["../step-000000000002", "/etc", "step-2", "step-000000000002/../step-000000000002", "."])(
  "R9 L-65: a pointer to %s is not followed",
  async (file) => {
    const directory = temporaryFolder();
    const store = new CheckpointStore({ directory, keepLast: 2, runId: "run" });
    for (const step of [1, 2]) await store.save(stateAt(step));
    await writeFile(
      join(directory, "latest.json"),
      JSON.stringify({ step: 2, file, runId: "run", sequence: 2 }),
    );
    const loaded = await store.loadNewestGood();
    expect(loaded!.info.step).toBe(2);
    expect(loaded!.skipped).toEqual([
      { path: join(directory, "latest.json"), reason: expect.stringContaining(file) },
    ]);
  },
);

it("R10: a controlled stop saves, and so does a failure that leaves a whole step behind", async () => {
  const stop = new AbortController();
  const outputDir = temporaryFolder();
  const result = await trainFromConfig(
    tinyConfig(outputDir, { run: { max_steps: 50 }, checkpoint: { every_steps: 40 } }),
    {
      signal: stop.signal,
      hooks: [
        (event, payload) =>
          event === "train_step" && "step" in payload && payload.step === 3 && stop.abort("SIGTERM"),
      ],
    },
  );
  expect(result.stop).toEqual({ kind: "stopped", cause: "SIGTERM" });
  expect((await loadCheckpoint(outputDir)).info.step).toBe(3);

  // The data end in the middle of the fourth update.
  const [folder, whole] = [temporaryFolder(), temporaryFolder()];
  const options = { dataset: new FormulaDataset(40), accumulationSteps: 2, maxSteps: 5, everySteps: 40 };
  const failing = await localTrainer({ model: smallTransformer(), folder, ...options });
  let batches = 0;
  const next = failing.loader.next.bind(failing.loader);
  failing.loader.next = async (): Promise<LoadedBatch> => {
    if (++batches > 7) throw new DataError("the disk is gone", { code: "data.gone" });
    return next();
  };
  await expect(failing.trainer.fit()).rejects.toThrow("the disk is gone");
  const saved = await loadCheckpoint(folder);
  expect(saved.content.trainer).toMatchObject({
    step: 3,
    samples: 12,
    data: { position: 12 },
    counters: { microbatches: 6 },
  });
  const again = await localTrainer({ model: smallTransformer({}, 9), folder, ...options });
  await again.trainer.resume(saved);
  await again.trainer.fit();
  const uninterrupted = await localTrainer({ model: smallTransformer(), folder: whole, ...options });
  await uninterrupted.trainer.fit();
  expect(await again.engine.readParameters()).toEqual(await uninterrupted.engine.readParameters());
  for (const run of [failing, again, uninterrupted]) await run.close();
});

it("R11: what does not fit is found before anything is touched; what breaks off half-way cannot go on", async () => {
  const folder = temporaryFolder();
  const first = await localTrainer({ model: smallTransformer(), folder, maxSteps: 2 });
  await first.trainer.fit();
  await first.close();
  const second = await localTrainer({ model: smallTransformer({}, 2), folder });
  const before = [await second.engine.readParameters(), await second.engine.readOptimizer()];
  const loaded = await loadCheckpoint(folder);
  const moments = [...loaded.content.optimizer];
  // The very last tensor that would be written is the wrong one.
  const wrong = new Map([
    ...moments.slice(0, -1),
    [moments.at(-1)![0], { dtype: "float32", shape: [1], data: new Float32Array(1) }],
  ]) as typeof loaded.content.optimizer;
  const spoiled = { ...loaded, content: { ...loaded.content, optimizer: wrong } };
  expect(await failure(second.trainer.resume(spoiled))).toMatchObject({
    code: "checkpoint.optimizer_differs",
  });
  expect([await second.engine.readParameters(), await second.engine.readOptimizer()]).toEqual(before);
  expect([second.trainer.step, second.loader.position()]).toEqual([0, { epoch: 0, position: 0 }]);

  const opened = await openCheckpoint(folder);
  let parts = 0;
  const optimizer = {
    ...opened.content.optimizer,
    readPart: async () => {
      if (++parts > 3) throw new Error("EIO: the disk failed");
    },
  };
  const failing = { ...opened, content: { ...opened.content, optimizer } };
  expect(await failure(second.trainer.resume(failing))).toMatchObject({ code: "checkpoint.unreadable" });
  expect(await failure(second.trainer.fit())).toMatchObject({ code: "checkpoint.half_restored" });
  // A whole one heals it.
  await second.trainer.resume(opened);
  await second.trainer.fit();
  await opened.content.close();
  await second.close();
});

it("R12: the outer state has one place, and of two states the later save counts, not the higher step", async () => {
  const directory = temporaryFolder();
  const store = new CheckpointStore({ directory, keepLast: null, runId: "run" });
  for (const step of [10, 20]) await store.save(richStateAt(step));
  const back = new CheckpointStore({ directory, keepLast: null, runId: "unused" });
  back.continueFrom((await back.load(join(directory, "step-000000000010"))).info);
  const { path } = await back.save(richStateAt(11));
  const { content, info } = (await store.loadNewestGood())!;
  expect([info.step, info.sequence, content.trainer.coordinator]).toEqual([
    11,
    3,
    { round: 11, pending: null },
  ]);
  expect(content.coordinator!.get("baseline.w")!.data).toEqual(Float32Array.of(11, -0));
  const holders = [];
  for (const file of await readdir(path))
    if ((await readFile(join(path, file), "latin1")).includes("round")) holders.push(file);
  expect(holders).toEqual(["coordinator.json"]);
});

it("R13: what a killed writer left is removed at the next start", async () => {
  const outputDir = temporaryFolder();
  let temporary = "";
  const store = new CheckpointStore({
    directory: join(outputDir, "checkpoints"),
    keepLast: 1,
    runId: "run",
    onFileOperation: ({ kind, path }) => {
      if (kind === "mkdir" && path.includes(".tmp-")) temporary = path;
    },
  });
  await store.save(stateAt(1));
  const dead = temporary.replace(`-${process.pid}-`, "-99999999-");
  await writeFile(dead, "half a checkpoint");
  await trainFromConfig(tinyConfig(outputDir, { run: { max_steps: 1 } }));
  expect((await readdir(join(outputDir, "checkpoints"))).filter((name) => name.startsWith("."))).toEqual([]);
});

it("R14: a secret is in no file, and its mark is no secret when it comes back", async () => {
  const outputDir = temporaryFolder();
  const config = {
    ...tinyConfig(outputDir, { run: { max_steps: 1 } }),
    distributed: { token: "hf_verysecret" },
  };
  await trainFromConfig(config);
  for (const file of await readdir(at(outputDir, 1)))
    expect(await readFile(join(at(outputDir, 1), file), "latin1")).not.toContain("verysecret");
  const saved = (await loadCheckpoint(outputDir)).content.config;
  expect(JSON.stringify(saved)).toContain("<redacted>");
  expect(resolveConfig(saved).distributed.token).toBe(null);
});

it("R15: a checkpoint of another node is refused, field by field", () => {
  const node = { enabled: true, mode: "dumb_diloco", role: "worker", node_id: "a", repo_id: "org/run" };
  const print = (distributed: Record<string, unknown>): Fingerprint => ({
    ...stateAt(1).fingerprint,
    distributed,
  });
  const info = { path: "/runs/x", manifest: { formatVersion: 2 } };
  expect(judgeResume(info, print(node), print({ ...node })).notes).toEqual([]);
  const other = print({ ...node, role: "master", node_id: "b" });
  const judge = (accept: string[] = []) => judgeResume(info, print(node), other, accept);
  expect(judge).toThrow(
    expect.objectContaining({
      code: "checkpoint.node_differs",
      message: expect.stringContaining(
        'distributed.node_id: saved "a", now "b"; distributed.role: saved "worker", now "master"',
      ),
    }),
  );
  expect(judge(["distributed"]).accepted.map(({ field }) => field)).toEqual([
    "distributed.node_id",
    "distributed.role",
  ]);
});

it("R16 L-64: a pickle that wants to call something is refused by name, and nothing runs", async () => {
  const canary = join(temporaryFolder(), "canary");
  const file = torchZip(pickle(call("os", "system", asm.text(`touch ${canary}`))));
  await expect(readTorchFile(bytesSource(file, "evil.pt"))).rejects.toThrow(/os\.system/);
  await expect(readFile(canary)).rejects.toThrow("ENOENT");
  // And ours are no pickles in the first place: see R3.
  await rm(canary, { force: true });
});

function asFile(state: ReadonlyMap<string, TensorData>) {
  return new Map([...state].map(([name, { shape, data }]) => [name, { dtype: "F32" as const, shape, data }]));
}
