// The outer loop as a configuration describes it: an aggregator with its files on disk and its events in the run's
// logger. Alone (`speedtronic aggregate`), or beside a node that trains (role master). Node only.

import type { SpeedtronicConfig } from "../config/schema.js";
import { Aggregator } from "../distributed/node/aggregator.js";
import { diskSurroundings } from "../distributed/node/aggregator-disk.node.js";
import { leaseFields } from "../distributed/protocol/lease-fields.js";
import type { MergeSettings } from "../distributed/protocol/master-contract.js";
import type { Transport } from "../distributed/transports/contract.js";
import type { BufferPolicies } from "../distributed/wire/buffer-merge.js";
import { toStream } from "../formats/safetensors/container.js";
import { type ByteSink, writeSafetensors } from "../formats/safetensors/index.js";
import type { MetricLogger } from "../observe/metric-logger.js";
import type { TensorData } from "../tensor/dtype.js";
import { SpeedtronicError } from "../util/errors.js";
import { mergeSettings } from "./merge-settings.js";

export interface AggregationOptions {
  readonly config: SpeedtronicConfig;
  /** The caller closes it. */
  readonly transport: Transport;
  readonly logger: Pick<MetricLogger, "emitCustom">;
  /** Folder for copies of what the repository holds; made if needed, and this aggregation's alone. */
  readonly folder: string;
  readonly masterId: string;
  /** What of the model cannot be seen in its tensors. */
  readonly fingerprint: Readonly<Record<string, unknown>>;
  /** Larger files of weights or momentum are not fetched. */
  readonly maxStateBytes?: number | undefined;
  /** Of the model's buffers (see `bufferPolicies`). */
  readonly bufferPolicies?: BufferPolicies | undefined;
  /** The weights of a run that does not exist yet; undefined: there must be one. */
  readonly initialState?: (() => Promise<ReadonlyMap<string, TensorData>>) | undefined;
  readonly takeOver?: boolean;
  readonly allowPublic?: boolean;
}

export interface AggregationLimits {
  /** Ends after so many publications. */
  readonly rounds?: number | undefined;
  readonly signal?: AbortSignal | undefined;
}

export class Aggregation {
  readonly #options: AggregationOptions;
  readonly #aggregator: Aggregator;
  readonly #firstStep: number;

  private constructor(options: AggregationOptions, aggregator: Aggregator) {
    this.#options = options;
    this.#aggregator = aggregator;
    this.#firstStep = aggregator.outerStep;
    const { masterId, transport, logger } = options;
    logger.emitCustom("master_start", {
      master_id: masterId,
      repository: transport.title,
      outer_step: this.#firstStep,
      ...describeSettings(mergeSettings(options.config)),
    });
  }

  /**
   * Becomes the master of the run in the repository, or of a new one.
   * @throws AggregatorError `fenced`, `no_run`, `half_started`, `damaged_repository`, `other_model`; TransportError.
   */
  static async start(options: AggregationOptions, signal?: AbortSignal): Promise<Aggregation> {
    const { config, transport, logger, folder, masterId, fingerprint, initialState } = options;
    const { virtual_shards: virtualShards } = config.data;
    const { takeOver = false, allowPublic = false } = options;
    const aggregator = await Aggregator.start(
      {
        transport,
        surroundings: await diskSurroundings(folder),
        settings: mergeSettings(config),
        masterId,
        bufferPolicies: options.bufferPolicies,
        maxStateBytes: options.maxStateBytes,
        pollIntervalMs: config.distributed.poll_interval * 1000,
        takeOver,
        // Through JSON: fields without a value are left out.
        fingerprint: JSON.parse(JSON.stringify(fingerprint)) as Record<string, never>,
        onEvent: (event, payload) => logger.emitCustom(event, payload),
        ...(virtualShards !== null && { recordFields: leaseFields({ shardCount: virtualShards }) }),
        ...(initialState && {
          bootstrap: {
            allowPublic,
            writeState: async (sink: ByteSink) => {
              const streams = [...(await initialState())].map(([name, value]) => toStream(name, value));
              await writeSafetensors(sink, streams);
            },
          },
        }),
      },
      signal,
    );
    return new Aggregation(options, aggregator);
  }

  get outerStep(): number {
    return this.#aggregator.outerStep;
  }

  /** Publishes until the limits end it. @throws AggregatorError `fenced`, TransportError that is not transient. */
  async run(limits: AggregationLimits): Promise<void> {
    await this.#aggregator.runUntil(limits);
  }

  /** Adds up what is there without a quorum, until nothing usable is left. */
  async drain(signal?: AbortSignal): Promise<void> {
    await this.#aggregator.drain(signal);
  }

  /** Says that this master ends. */
  stop(): void {
    const { outerStep } = this.#aggregator;
    this.#options.logger.emitCustom("master_stop", {
      outer_step: outerStep,
      published: outerStep - this.#firstStep,
    });
  }
}

/** The keys of the event `master_start`; null stands for no limit. */
function describeSettings(settings: MergeSettings): Readonly<Record<string, unknown>> {
  return {
    merge: settings.merge,
    outer_lr: settings.outerLr,
    outer_momentum: settings.outerMomentum,
    outer_momentum_warmup_rounds: settings.momentumWarmupRounds,
    staleness_limit: Number.isFinite(settings.stalenessLimit) ? settings.stalenessLimit : null,
    staleness_discount: settings.stalenessDiscount,
    clip_factor: settings.clipFactor,
    quorum: settings.quorum,
    grace_seconds: settings.graceMs / 1000,
    keep_versions: settings.keepVersions,
  };
}

/** What to report of an error that ended a master. */
export function masterFailure(error: unknown): { readonly error: string; readonly code: string } {
  const message = error instanceof Error ? error.message : String(error);
  return { error: message, code: error instanceof SpeedtronicError ? error.code : "internal" };
}
