// A model of a few numbers, a scripted master, and time that passes only when the test says so.

import { createHash } from "node:crypto";

import type { Clock } from "../../../src/distributed/node/clock.js";
import { memoryOutbox, type Outbox } from "../../../src/distributed/node/outbox.js";
import { newSha256 } from "../../../src/distributed/node/outbox.node.js";
import { WorkerNode, type WorkerNodeOptions } from "../../../src/distributed/node/worker-driver.js";
import { encodeLedger, type LedgerEntry } from "../../../src/distributed/protocol/index.js";
import { encodeVersionRecord, loadDelta, parseDeltaPath } from "../../../src/distributed/wire/index.js";
import { bytesSource, encodeSafetensors, toFloat32 } from "../../../src/formats/safetensors/index.js";
import type { TensorData } from "../../../src/tensor/dtype.js";
import { MemoryRepo } from "./memory-repo.js";

/** Sleeps end when the test advances the time. */
export class TestClock implements Clock {
  #now = 0;
  #sleepers: { readonly at: number; readonly wake: () => void }[] = [];

  now(): number {
    return this.#now;
  }

  sleep(ms: number, signal?: AbortSignal): Promise<void> {
    if (signal?.aborted === true) return Promise.resolve();
    return new Promise((resolve) => {
      const wake = () => {
        this.#sleepers = this.#sleepers.filter((other) => other !== sleeper);
        signal?.removeEventListener("abort", wake);
        resolve();
      };
      const sleeper = { at: this.#now + ms, wake };
      this.#sleepers.push(sleeper);
      signal?.addEventListener("abort", wake);
    });
  }

  /** Lets everything run that is due within `ms`, in order. */
  async advance(ms: number): Promise<void> {
    const end = this.#now + ms;
    await settle();
    for (;;) {
      const next = this.#sleepers.filter(({ at }) => at <= end).sort((a, b) => a.at - b.at)[0];
      if (next === undefined) break;
      this.#now = next.at;
      next.wake();
      await settle();
    }
    this.#now = end;
  }
}

/** Until nothing more happens without time. Memory answers within a few turns of the event loop. */
export async function settle(): Promise<void> {
  for (let i = 0; i < 40; i++) await new Promise((resolve) => setImmediate(resolve));
}

/** Two tied names, an integer buffer, and one matrix. */
export class TestModel {
  weights: Float32Array;
  readonly bias = Float32Array.of(0);
  count = Int32Array.of(7);

  constructor(weights: readonly number[]) {
    this.weights = Float32Array.from(weights);
  }

  async readState(): Promise<Map<string, TensorData>> {
    const w: TensorData = { dtype: "float32", shape: [this.weights.length], data: this.weights.slice() };
    return new Map<string, TensorData>([
      ["w", w],
      ["tied", w],
      ["count", { dtype: "int32", shape: [1], data: this.count.slice() }],
    ]);
  }

  async writeState(values: ReadonlyMap<string, TensorData>): Promise<void> {
    this.weights = (values.get("w")!.data as Float32Array).slice();
    this.count = (values.get("count")!.data as Int32Array).slice();
  }

  /** A local step. */
  train(...amounts: readonly number[]): void {
    for (const [i, amount] of amounts.entries()) this.weights[i]! += amount;
  }
}

export function stateFile(weights: readonly number[], count = 7): Uint8Array {
  const data = Float32Array.from(weights);
  return encodeSafetensors([
    { name: "w", dtype: "F32", shape: [data.length], data },
    { name: "tied", dtype: "F32", shape: [data.length], data },
    { name: "count", dtype: "I32", shape: [1], data: Int32Array.of(count) },
  ]);
}

export interface Publication {
  readonly outerStep: number;
  readonly weights: readonly number[];
  readonly count?: number;
  /** Paths in the repository that are in this version's sum. Undefined: no ledger, as from a Python master. */
  readonly applied?: readonly string[];
  readonly extra?: Readonly<Record<string, string | Readonly<Record<string, number | string>>>>;
  readonly file?: Uint8Array;
}

const hash = (bytes: Uint8Array | string) => createHash("sha256").update(bytes).digest("hex");

/** What a master commits. */
export function publish(repo: MemoryRepo, { outerStep, weights, count, applied, extra, file }: Publication) {
  const content = file ?? stateFile(weights, count);
  const modelFile = `global/step_${outerStep}.safetensors`;
  const entries = applied?.map((path): LedgerEntry => {
    const parsed = parseDeltaPath(path);
    const sha256 = hash(repo.files.get(path)!);
    const nodeId = parsed.kind === "delta" ? parsed.nodeId : "";
    return { path, nodeId, sha256, contentId: sha256, fate: "applied", outerStep, weight: 1, reason: "" };
  });
  const ledger = entries && encodeLedger({ entries });
  const ours = ledger
    ? { model_sha256: hash(content), ledger_file: "global/ledger.json", ledger_sha256: hash(ledger) }
    : {};
  const record = encodeVersionRecord({
    outerStep,
    modelFile,
    updatedAt: "",
    isBootstrap: outerStep === 0,
    extra: { ...ours, ...extra },
  });
  repo.put({
    [modelFile]: content,
    "global/step_count.json": record,
    ...(ledger ? { "global/ledger.json": ledger } : {}),
  });
}

/** Values of the deltas in the repository, by path. */
export async function deltasIn(repo: MemoryRepo): Promise<Map<string, number[]>> {
  const found = new Map<string, number[]>();
  for (const [path, bytes] of repo.files) {
    if (!path.startsWith("nodes/")) continue;
    const { reader } = await loadDelta(bytesSource(bytes));
    found.set(path, [...toFloat32(await reader.read("w"))]);
  }
  return found;
}

export function newBench(overrides: Partial<WorkerNodeOptions> = {}) {
  const repo = new MemoryRepo();
  const clock = new TestClock();
  const events: { readonly event: string; readonly payload: Readonly<Record<string, unknown>> }[] = [];
  const outbox: Outbox = memoryOutbox(newSha256);
  const node = (more: Partial<WorkerNodeOptions> = {}) =>
    new WorkerNode({
      nodeId: "a",
      innerSteps: 2,
      maxQueued: 1,
      transport: repo,
      outbox,
      fingerprint: { d_model: 8 },
      clock,
      random: () => 0.5,
      newHasher: newSha256,
      pollIntervalMs: 1000,
      backoff: { initialMs: 100, maxMs: 1000 },
      attempts: 3,
      emit: (event, payload) => events.push({ event, payload }),
      ...overrides,
      ...more,
    });
  const names = () => events.map(({ event }) => event);
  return { repo, clock, events, names, outbox, node };
}
