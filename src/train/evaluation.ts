// Loss on held-out data with dropout off: a sum over all its target tokens, divided once.

import type { Dataset } from "../data/types.js";
import { validationBatches } from "../data/validation-batches.js";
import { countDivisor, countResult, lossResult, type TrainEngine } from "./engine/contract.js";
import type { ProgramCache } from "./programs.js";

export interface EvaluationOptions {
  readonly batchSize: number;
  /** Null: all of it. */
  readonly maxBatches: number | null;
  readonly signal?: AbortSignal;
}

export interface EvaluationResult {
  /** Mean loss per target token, in nats. */
  readonly loss: number;
  /** Target tokens scored. */
  readonly tokens: number;
  readonly elapsedS: number;
}

/** Undefined when `signal` was aborted before the end. */
export async function evaluateDataset(
  engine: TrainEngine,
  programs: ProgramCache,
  dataset: Dataset,
  options: EvaluationOptions,
): Promise<EvaluationResult | undefined> {
  const started = performance.now();
  let lossSum = 0;
  let tokens = 0;
  const limit = options.maxBatches === null ? {} : { maxBatches: options.maxBatches };
  for await (const { batch, targetTokens } of validationBatches(dataset, options.batchSize, limit)) {
    if (options.signal?.aborted) return undefined;
    const program = await programs.get(batch);
    const results = await engine.evaluate(program.id, { ...batch, ...program.feeds() });
    const count = results[countResult]?.data[0];
    const loss = results[lossResult]!.data[0]!;
    lossSum += count === undefined ? loss * targetTokens : loss;
    tokens += count ?? targetTokens;
  }
  return { loss: lossSum / countDivisor(tokens), tokens, elapsedS: (performance.now() - started) / 1000 };
}
