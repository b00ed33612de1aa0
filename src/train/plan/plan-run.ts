// What a run will be, before it is one: size of the model, work per token, memory, disk, tokens and time. Builds and
// traces the model; opens no data, writes nothing.

import { accumulationSteps, effectiveMaxSteps } from "../../config/derived.js";
import type { SpeedtronicConfig } from "../../config/schema.js";
import { collateCausal } from "../../data/collate.js";
import type { CollatedBatch } from "../../data/types.js";
import type { TrainableModel } from "../../nn/contract.js";
import { countFlops } from "../../tensor/flops.js";
import { optimize } from "../../tensor/passes/optimize.js";
import { peakActivationBytes } from "../../tensor/peak-memory.js";
import type { Graph } from "../../tensor/trace/graph.js";
import { buildConfiguredModel } from "../configured-model.js";
import { traceTraining } from "../trace-model.js";
import { type DiskPlan, type MemoryPlan, planDisk, planMemory, stateBytes } from "./memory.js";

export interface RunPlan {
  readonly parameters: number;
  readonly trainable: number;
  /** Floating-point operations of forward and backward pass for each target token (2 per multiply-add). */
  readonly flopsPerToken: number;
  readonly memory: MemoryPlan;
  readonly disk: DiskPlan;
  readonly steps: number;
  readonly tokensPerStep: number;
  readonly tokens: number;
  readonly totalFlops: number;
}

export interface PlannedRun {
  readonly plan: RunPlan;
  readonly model: TrainableModel;
  /** One micro-batch, forward and backward. */
  readonly graph: Graph;
  readonly batch: CollatedBatch;
}

/**
 * @throws ConfigError, ModelError where the model cannot be built
 */
export function planRun(config: SpeedtronicConfig): PlannedRun {
  const model = buildConfiguredModel(config);
  if (config.gradient_checkpointing) model.setGradientCheckpointing?.(true);
  const batch = planningBatch(config);
  const graph = traceTraining(model, batch.batch);
  const state = stateBytes(config, model);
  const tokensPerStep = accumulationSteps(config) * batch.targetTokens;
  const steps = effectiveMaxSteps(config);
  const flopsPerToken = countFlops(graph) / batch.targetTokens;
  const tokens = steps * tokensPerStep;
  const plan: RunPlan = {
    parameters: state.weights / 4,
    trainable: state.trainable / 4,
    flopsPerToken,
    memory: planMemory(config, state, peakActivationBytes(optimize(graph))),
    disk: planDisk(config, state),
    steps,
    tokensPerStep,
    tokens,
    totalFlops: tokens * flopsPerToken,
  };
  return { plan, model, graph, batch };
}

/** A full micro-batch whose ids run through the vocabulary. */
function planningBatch({ data, model }: SpeedtronicConfig): CollatedBatch {
  const { micro_batch_size, block_size } = data;
  const samples = Array.from({ length: micro_batch_size }, (_, row) => {
    const ids = Int32Array.from(
      { length: block_size + 1 },
      (__, i) => (row * 7919 + i * 31) % model.vocab_size,
    );
    return { inputIds: ids.subarray(0, block_size), labels: ids.subarray(1) };
  });
  return collateCausal(samples);
}
