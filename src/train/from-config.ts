// The parts of a run that follow from its configuration alone, for everything that builds one or a piece of one: the
// composition root, and the commands that look at a run without training it.

import { scheduleHorizon } from "../config/derived.js";
import type { SpeedtronicConfig } from "../config/schema.js";
import type { BuildDataloaderOptions } from "../data/build-dataloader.js";
import type { RecordSample } from "../data/collate-records.js";
import { endOfTextId } from "../data/tokenizers/open-tokenizer.js";
import type { Dataset, Tokenizer } from "../data/types.js";
import { walkOrder } from "../distributed/protocol/leases.js";
import type { TrainableModel } from "../nn/contract.js";
import { optimizerNamed } from "../optim/index.js";
import { RunSchedule } from "../schedule/index.js";
import { ConfigError, invariant } from "../util/errors.js";
import type { EngineOptions } from "./engine/contract.js";
import { optimizerHyper, parameterRules } from "./optimizer-options.js";
import { moduleOfRule } from "./plugins/load.node.js";
import { sourceAccess, sourceOptions } from "./source-options.node.js";

/** The curve that `scheduler` describes. */
export function configuredSchedule(config: SpeedtronicConfig): RunSchedule {
  const { name, warmup_steps, min_lr_ratio, decay_steps, decay_shape, moved_end } = config.scheduler;
  const options = {
    name,
    warmupSteps: warmup_steps,
    horizon: scheduleHorizon(config),
    minLrRatio: min_lr_ratio,
    pythonEndpoints: config.compat.schedule_endpoints,
    decaySteps: decay_steps,
    decayShape: decay_shape,
  };
  return new RunSchedule(options, moved_end);
}

/** Matrices decay, tensors of one dimension do not, unless the compatible rule is asked for. */
export function engineOptions(
  config: SpeedtronicConfig,
  model: TrainableModel,
  threads: number,
  backend: EngineOptions["backend"],
  modelTitle: string,
): EngineOptions {
  const rules = parameterRules(config, model);
  const parameters = [...model.namedParameters()].map(([name, parameter]) => {
    const rule = rules.get(name);
    return {
      name,
      shape: parameter.shape,
      trainable: parameter.trainable,
      decays: parameter.rank > 1 || config.compat.decay_all_tensors,
      ...(rule !== undefined && { rule }),
    };
  });
  if (!parameters.some((p) => p.trainable))
    throw new ConfigError(`${modelTitle} has no trainable parameter`, { code: "train.nothing_to_train" });
  const { name } = config.optimizer;
  invariant(optimizerNamed(name), `optimizer ${name} is in the table`);
  const module = moduleOfRule(name);
  return {
    backend,
    threads,
    parameters,
    optimizer: { name, hyper: optimizerHyper(config) },
    ...(module !== undefined && { plugins: [module] }),
  };
}

/** What a program hands over in place of configured data. */
export interface GivenData {
  readonly dataset?: Dataset | Dataset<RecordSample>;
  readonly tokenizer?: Tokenizer;
  /** Somebody else decides what a node trains on. */
  readonly coordinator?: unknown;
}

/** What `given` holds takes the place of what the configuration names. */
export function dataloaderOptions(config: SpeedtronicConfig, given: GivenData = {}): BuildDataloaderOptions {
  const { data, model, compat } = config;
  return {
    config: {
      textPath: data.text_path,
      sources: sourceOptions(data),
      badRecordLimit: data.bad_record_limit,
      maxTokens: data.max_tokens,
      synthetic: data.synthetic,
      numTokens: data.num_tokens,
      vocabSize: model.vocab_size,
      blockSize: data.block_size,
      microBatchSize: data.micro_batch_size,
      shuffle: data.shuffle,
      dropLast: data.drop_last,
      seed: data.seed,
      numWorkers: Math.max(1, data.num_workers),
      prefetchFactor: data.prefetch_factor,
      validationFraction: data.validation_fraction,
      compat: { textStride: compat.text_stride, syntheticSeeds: compat.synthetic_seeds },
    },
    ...(given.dataset ? { dataset: given.dataset } : {}),
    ...(config.distributed.enabled && !given.coordinator && data.virtual_shards !== null
      ? { shards: { shardCount: data.virtual_shards, walk: walkOrder } }
      : {}),
    ...(given.tokenizer ? { tokenizer: given.tokenizer } : {}),
    ...(data.end_of_text === null ? {} : { endOfText: endOfTextId(given.tokenizer, data.end_of_text) }),
    ...(data.sources === null ? {} : sourceAccess(data, process.env)),
  };
}
