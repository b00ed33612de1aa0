// What the tests of training share: folders that go away, a small configuration, a record of events, a trainer
// with an engine on this thread, and checkpoints as bytes.

import { createHash } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { readdir, readFile, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { buildRuntime, type ConfigInput, Trainer, type TrainerOptions } from "speedtronic";
import { CheckpointStore, type Environment } from "speedtronic/checkpoint";
import { collateCausal, createDataLoader, type Dataset, type Sample } from "speedtronic/data";
import type { TrainableModel } from "speedtronic/nn";
import type { TensorData } from "speedtronic/tensor";
import { afterAll, expect } from "vitest";
import { encodeSafetensors } from "../../src/formats/safetensors/index.js";
import type { EventMap } from "../../src/observe/index.js";
import { MetricLogger } from "../../src/observe/index.js";
import { engineFor } from "../engine/fixtures.js";

const folders: string[] = [];
afterAll(() => {
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true });
});

/** A new empty folder, removed after the test file. */
export function temporaryFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "speedtronic-train-"));
  folders.push(folder);
  return folder;
}

export const smokeFile = join(import.meta.dirname, "../../configs/smoke.yaml");
export const bookFile = join(import.meta.dirname, "../../assets/moby-dick.txt");

type Sections = Pick<
  ConfigInput,
  "run" | "model" | "data" | "optimizer" | "scheduler" | "checkpoint" | "evaluation" | "sampling" | "compat"
>;

/** A run of a few milliseconds a step; `changes` are merged section by section. */
export function tinyConfig(outputDir: string, changes: Sections = {}): ConfigInput {
  const merge = <T>(base: T, change: unknown): T => ({ ...base, ...(change as object) });
  return {
    run: merge({ max_steps: 4, output_dir: outputDir, seed: 5, threads: 1 }, changes.run),
    model: merge(
      { vocab_size: 16, max_seq_len: 8, n_layer: 1, n_head: 2, d_model: 8, d_ff: 12 },
      changes.model,
    ),
    data: merge({ num_tokens: 12, micro_batch_size: 1, target_batch_size: 2 }, changes.data),
    optimizer: merge({ lr: 1e-2 }, changes.optimizer),
    scheduler: merge({ warmup_steps: 1 }, changes.scheduler),
    checkpoint: merge({ every_steps: 2, keep_last: null }, changes.checkpoint),
    evaluation: merge({}, changes.evaluation),
    sampling: merge({}, changes.sampling),
    compat: typeof changes.compat === "string" ? changes.compat : merge({}, changes.compat),
  };
}

export interface Recorded {
  readonly hook: (event: string, payload: Readonly<Record<string, unknown>>) => void;
  /** `event`, or `event:step` where the payload has a step. */
  readonly names: () => string[];
  readonly of: <E extends keyof EventMap>(event: E) => EventMap[E][];
}

export function recordEvents(
  onEvent?: (event: string, payload: Readonly<Record<string, unknown>>) => void,
): Recorded {
  const seen: [string, Readonly<Record<string, unknown>>][] = [];
  return {
    hook: (event, payload) => {
      seen.push([event, payload]);
      onEvent?.(event, payload);
    },
    names: () => seen.map(([event, { step }]) => (step === undefined ? event : `${event}:${step}`)),
    of: <E extends keyof EventMap>(event: E) =>
      seen.filter(([name]) => name === event).map(([, payload]) => payload as unknown as EventMap[E]),
  };
}

/** Samples with ids by formula, the lengths in turn as given. */
export class FormulaDataset implements Dataset {
  constructor(
    readonly length: number,
    private readonly lengths: readonly number[] = [8],
    private readonly vocab = 13,
  ) {}

  get(index: number): Sample {
    const length = this.lengths[index % this.lengths.length]!;
    const ids = Int32Array.from({ length: length + 1 }, (_, i) => (i * i + 7 * index) % this.vocab);
    return { inputIds: ids.subarray(0, length), labels: ids.subarray(1) };
  }

  describe(): Record<string, unknown> {
    return { kind: "formula", length: this.length, lengths: this.lengths, vocab: this.vocab };
  }
}

const environment: Environment = {
  threads: 1,
  cpu: "test",
  node: "20",
  library: "speedtronic",
  platform: "test",
};

export type LocalTrainerOptions = Partial<Omit<TrainerOptions, "model" | "checkpoints" | "logger">> & {
  readonly model: TrainableModel;
  readonly dataset?: Dataset;
  readonly batchSize?: number;
  /** Folder of checkpoints; none by default. */
  readonly folder?: string;
  readonly everySteps?: number;
  readonly events?: Recorded;
};

/** A trainer over an engine on this thread. `close` frees it. */
export async function localTrainer(options: LocalTrainerOptions) {
  const { model, dataset, batchSize, folder, everySteps, events, ...rest } = options;
  const engine = options.engine ?? (await engineFor(model));
  const loader =
    options.loader ??
    createDataLoader({
      dataset: dataset ?? new FormulaDataset(8),
      batchSize: batchSize ?? 2,
      collate: collateCausal,
    });
  const logger = new MetricLogger({ runId: "test", hooks: events ? [events.hook] : [] });
  const store = folder && new CheckpointStore({ directory: folder, keepLast: null, runId: "test" });
  const trainer = new Trainer({
    maxSteps: 4,
    lr: 0.01,
    ...rest,
    model,
    engine,
    loader,
    logger,
    ...(store
      ? {
          checkpoints: {
            store,
            everySteps: everySteps ?? 2,
            config: {},
            fingerprint: { model: { kind: model.constructor.name }, data: {}, optimizer: {} },
            environment,
          },
        }
      : {}),
  });
  const close = async () => {
    await trainer.close();
    await engine.close();
    await loader.close();
    await logger.close();
  };
  return { trainer, engine, loader, logger, store: store || undefined, close };
}

/** Every file below `folder` with its hash and time of change, by path. */
export async function folderState(folder: string): Promise<Record<string, string>> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  const state: Record<string, string> = {};
  for (const entry of entries) {
    const path = join(entry.parentPath, entry.name);
    const { mtimeMs } = await stat(path);
    const content = entry.isFile()
      ? createHash("sha256")
          .update(await readFile(path))
          .digest("hex")
      : "folder";
    state[path.slice(folder.length + 1)] = `${content} ${mtimeMs}`;
  }
  return state;
}

/** Hashes of the weight and optimiser files of the checkpoint of `step`. */
export async function weightHashes(outputDir: string, step: number): Promise<Record<string, string>> {
  const folder = join(outputDir, "checkpoints", `step-${String(step).padStart(12, "0")}`);
  const hashOf = async (name: string) =>
    createHash("sha256")
      .update(await readFile(join(folder, name)))
      .digest("hex");
  const files = ["model.safetensors", "optimizer.safetensors"];
  return Object.fromEntries(await Promise.all(files.map(async (name) => [name, await hashOf(name)])));
}

/** Names of the tensors that are bit-equal in both. */
export function equalTensors(
  a: ReadonlyMap<string, TensorData>,
  b: ReadonlyMap<string, TensorData>,
): string[] {
  expect([...b.keys()]).toEqual([...a.keys()]);
  return [...a.keys()].filter((name) => {
    const [left, right] = [a.get(name)!.data, b.get(name)!.data];
    return Array.from(left).every((value, i) => Object.is(value, right[i]));
  });
}

export const copyOf = (state: ReadonlyMap<string, TensorData>): Map<string, TensorData> =>
  new Map([...state].map(([name, value]) => [name, { ...value, data: value.data.slice() }]));

/** The initial weights of {@link tinyConfig}'s model as a safetensors file. */
export async function tinyModelFile(): Promise<Uint8Array> {
  const runtime = await buildRuntime(tinyConfig(temporaryFolder()));
  await runtime.refreshModel();
  const bytes = encodeSafetensors(
    [...runtime.model.stateEntries()].map(({ name, owner }) => {
      if ("value" in owner) throw new Error(`${name} is a buffer, which this model has none of`);
      return { name, dtype: "F32" as const, shape: owner.shape, data: owner.data };
    }),
  );
  await runtime.close();
  return bytes;
}
