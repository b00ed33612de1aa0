// `speedtronic aggregate` without its options: the outer loop alone, without training. Node only.

import { randomUUID } from "node:crypto";
import { join } from "node:path";
import type { SpeedtronicConfig } from "../config/schema.js";
import { maxFileBytes } from "../distributed/node/max-file-bytes.js";
import { openStateFolder } from "../distributed/node/state-folder.node.js";
import type { Transport } from "../distributed/transports/contract.js";
import type { TrainableModel } from "../nn/contract.js";
import { initialize } from "../nn/init/initialize.js";
import type { StateEntry } from "../nn/state-dict.js";
import { buildLogger, type LoggerOptions } from "../observe/build-logger.node.js";
import type { TensorData } from "../tensor/dtype.js";
import { Aggregation } from "./aggregation.node.js";
import { bufferPolicies } from "./buffer-policies.js";
import { buildConfiguredModel } from "./configured-model.js";
import { expectedFingerprint } from "./fleet/expected-model.js";
import { loggerOptions } from "./logger-options.js";
import { openTransport } from "./open-transport.node.js";

export interface AggregatorRequest {
  readonly config: SpeedtronicConfig;
  /** Where the nodes meet, in place of what the configuration names. The caller closes it. */
  readonly transport?: Transport;
  /** Ends after so many publications. */
  readonly rounds?: number | undefined;
  /** Only add up what is there, without a quorum, and end. */
  readonly drainOnly?: boolean;
  readonly takeOver?: boolean;
  readonly allowPublic?: boolean;
  readonly stream?: LoggerOptions["stream"];
  readonly hooks?: LoggerOptions["hooks"];
  /** Aborting it ends the loop after the publication in progress. */
  readonly signal?: AbortSignal;
}

export interface AggregatorResult {
  readonly outerStep: number;
  /** Versions that this call published. */
  readonly published: number;
}

/**
 * Publishes the versions of the run that `config` describes. A run that does not exist yet begins with the weights
 * that `run.seed` draws.
 * @throws ConfigError, ModelError, AggregatorError, NodeError `node.locked`, TransportError.
 */
export async function runAggregator(request: AggregatorRequest): Promise<AggregatorResult> {
  const { config, signal } = request;
  const { stream, hooks } = request;
  const given = { runId: randomUUID(), stream, hooks, isService: true };
  const logger = buildLogger(await loggerOptions(config, given));
  const transport =
    request.transport ??
    openTransport(config.distributed, process.env, (message) => logger.warning("distributed.token", message));
  try {
    const folder = await openStateFolder({
      // Beside the nodes of the same output folder: an aggregator has a name and a lock of its own.
      root: join(config.run.output_dir, config.distributed.state_dir, "aggregator"),
      nodeId: config.distributed.node_id,
      repoKey: transport.key,
    });
    try {
      const model = buildConfiguredModel(config);
      const aggregation = await Aggregation.start(
        {
          config,
          transport,
          logger,
          folder: join(folder.path, "master"),
          masterId: folder.nodeId,
          fingerprint: await expectedFingerprint(config, model),
          bufferPolicies: bufferPolicies(model, config),
          maxStateBytes: maxFileBytes(model.stateEntries().map(({ name, owner }) => [name, shapeOf(owner)])),
          initialState: async () => drawnState(model, config.run.seed),
          takeOver: request.takeOver === true,
          allowPublic: request.allowPublic === true,
        },
        signal,
      );
      const first = aggregation.outerStep;
      try {
        if (request.drainOnly === true) await aggregation.drain(signal);
        else await aggregation.run({ rounds: request.rounds, signal });
      } catch (error) {
        // Told to end in the middle of a publication.
        if (signal?.aborted !== true || error !== signal.reason) throw error;
      }
      aggregation.stop();
      return { outerStep: aggregation.outerStep, published: aggregation.outerStep - first };
    } finally {
      await folder.release();
    }
  } finally {
    if (request.transport === undefined) await transport.close();
    await logger.close();
  }
}

function shapeOf(owner: StateEntry["owner"]): { readonly shape: readonly number[] } {
  return "value" in owner ? owner.value : owner;
}

function drawnState(model: TrainableModel, seed: number): Map<string, TensorData> {
  initialize(model, seed);
  return new Map(
    model
      .stateEntries()
      .map(({ name, owner }) => [
        name,
        "value" in owner ? owner.value : { dtype: owner.dtype, shape: owner.shape, data: owner.data },
      ]),
  );
}
