// How long an update takes here: a few real ones in the real engine, on batches handed in. Nothing is kept.

import { accumulationSteps } from "../../config/derived.js";
import type { SpeedtronicConfig } from "../../config/schema.js";
import type { CollatedBatch } from "../../data/types.js";
import type { TrainableModel } from "../../nn/contract.js";
import { initialize } from "../../nn/init/initialize.js";
import { rngInputName } from "../../tensor/trace/context.js";
import type { Graph } from "../../tensor/trace/graph.js";
import { moveToEngine } from "../checkpointer.js";
import { WorkerEngine } from "../engine/worker-engine.node.js";
import { defaultThreads } from "../environment.node.js";
import { engineOptions } from "../from-config.js";
import { bufferFeeds } from "../trace-model.js";

export interface Probe {
  /** Seconds of one update, with all its micro-batches. */
  readonly stepS: number;
  readonly tokensPerSec: number;
  /** Updates that were timed. */
  readonly updates: number;
  /** Of the first update: what an untrained model gives. */
  readonly loss: number;
}

export interface ProbeOptions {
  /** About how long to measure, in seconds. At least one update is timed. Default 3. */
  readonly seconds?: number;
  readonly signal?: AbortSignal;
}

/** Updates that are not timed: they fill caches and memory. */
const warmUp = 1;
const mostUpdates = 20;

/**
 * Times updates of one micro-batch each, and scales their graphs to the micro-batches of a real update.
 * Draws the weights of `model`, and takes them away.
 */
export async function probeSpeed(
  config: SpeedtronicConfig,
  model: TrainableModel,
  graph: Graph,
  { batch, tokens, targetTokens }: CollatedBatch,
  { seconds = 3, signal }: ProbeOptions = {},
): Promise<Probe> {
  const engine = new WorkerEngine();
  try {
    initialize(model, config.run.seed);
    const threads = config.run.threads ?? defaultThreads();
    await engine.create(engineOptions(config, model, threads, "onnx", `model "${config.model.name}"`));
    await moveToEngine(model, engine);
    const program = await engine.addProgram(graph);
    const isRandom = graph.inputs.some(({ name }) => name === rngInputName);
    const update = (count: number) => {
      const draw = { dtype: "int32" as const, shape: [2], data: Int32Array.of(config.run.seed, count) };
      const feeds = { ...batch, ...bufferFeeds(model, graph), ...(isRandom && { [rngInputName]: draw }) };
      return engine.update({
        microbatches: [{ program, feeds, weight: targetTokens }],
        lr: 0,
        count,
        gradClip: config.optimizer.grad_clip,
        averaging: "targets",
      });
    };
    const { loss } = await update(1);
    const steps: number[] = [];
    const started = performance.now();
    const microBatches = accumulationSteps(config);
    while (
      steps.length < mostUpdates &&
      (steps.length === 0 || performance.now() - started < 1000 * seconds)
    ) {
      signal?.throwIfAborted();
      const { times } = await update(1 + warmUp + steps.length);
      steps.push(microBatches * times.graphMs + times.updateMs);
    }
    const stepS = median(steps) / 1000;
    return { stepS, tokensPerSec: (microBatches * tokens) / stepS, updates: steps.length, loss };
  } finally {
    await engine.close();
  }
}

function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2;
}
