// The composition root: from a configuration to a trainer with everything that it needs, and its orderly end.

import type { Fingerprint } from "../checkpoint/content.js";
import { accumulationSteps, effectiveMaxSteps } from "../config/derived.js";
import { resolveConfig } from "../config/resolve.js";
import type { ConfigInput, SpeedtronicConfig } from "../config/schema.js";
import { toPlainConfig } from "../config/serialize.js";
import { collectUnsupported, formatUnsupported, refuseUnsupported } from "../config/unsupported.js";
import { type AnyLoader, namedBatches } from "../data/batch-forms.js";
import { buildDataloader, type DataPipeline } from "../data/build-dataloader.js";
import { ByteTokenizer } from "../data/byte-tokenizer.js";
import { CheckedDataset } from "../data/checked-dataset.js";
import type { RecordSample } from "../data/collate-records.js";
import type { DataLoader, Dataset, Tokenizer } from "../data/types.js";
import type { Transport } from "../distributed/transports/contract.js";
import type { TrainableModel } from "../nn/contract.js";
import { Generator } from "../nn/generate/generator.js";
import { generateText } from "../nn/generate/text.js";
import { initialize } from "../nn/init/initialize.js";
import { buildLogger, type LoggerOptions } from "../observe/build-logger.node.js";
import type { MetricLogger } from "../observe/metric-logger.js";
import type { Schedule } from "../schedule/index.js";
import { baseNames, startAdapters } from "./adapters.node.js";
import { bufferPolicies } from "./buffer-policies.js";
import { checkRuntimeOptions } from "./check-runtime-options.js";
import { giveBack, moveToEngine, refreshModel } from "./checkpointer.js";
import { addConfiguredLora, buildConfiguredModel, isLanguageModel } from "./configured-model.js";
import type { SyncCoordinator } from "./coordinator.js";
import { WorkerCoordinator } from "./distributed-coordinator.node.js";
import type { EngineOptions, TrainEngine } from "./engine/contract.js";
import { WorkerEngine } from "./engine/worker-engine.node.js";
import { engineBackend } from "./engine-backend.js";
import { currentEnvironment, defaultThreads } from "./environment.node.js";
import { runFingerprint } from "./fingerprint.js";
import { configuredSchedule, dataloaderOptions, engineOptions } from "./from-config.js";
import { type InitialWeights, loadInitialWeights, plainReport } from "./initial-weights.node.js";
import { loggerOptions } from "./logger-options.js";
import { MasterCoordinator } from "./master-coordinator.node.js";
import { openCheckpoints, type Resume } from "./open-checkpoints.node.js";
import { openTransport } from "./open-transport.node.js";
import { pluginsOf, withPlugins } from "./plugins/given.js";
import { type LoadedPlugins, loadPlugins } from "./plugins/load.node.js";
import { resolvePrecision } from "./precision.js";
import { recordConfig } from "./record-config.node.js";
import type { TrainResult } from "./result.js";
import { describeRun } from "./run-info.node.js";
import { reportShapes } from "./shape-advice.js";
import { hashCorpus } from "./shared-corpus.node.js";
import { progressLines } from "./source-options.node.js";
import { Trainer } from "./trainer.js";

export interface RuntimeOptions {
  /** Default: `checkpoint.resume` of the configuration, as `auto`. */
  readonly resume?: Resume;
  /**
   * Fields of model and node in which a checkpoint may differ from the configuration and still be resumed, named as
   * the refusal names them (`rope_base`, `distributed.role`); `optimizer.state` for moments that do not fit.
   */
  readonly acceptDifferences?: readonly string[];
  /** Weights that a fresh start begins with, in place of drawn ones; without effect on a resume. */
  readonly initialWeights?: InitialWeights;
  /** Instead of the model that the configuration names. Its parameters are used as they are. */
  readonly model?: TrainableModel;
  /** Samples of your own. You close it yourself. With `data.validation_fraction` its last ones are held out. */
  readonly dataset?: Dataset | Dataset<RecordSample>;
  /**
   * Samples for the validation loss, instead of a held-out part: scored every `evaluation.every_steps` and at the end.
   * You close it yourself.
   */
  readonly validation?: Dataset | Dataset<RecordSample>;
  readonly tokenizer?: Tokenizer;
  /** Batches of any form, instead of a dataset. You close it yourself. */
  readonly loader?: DataLoader | AnyLoader;
  /**
   * Factor of `optimizer.lr` for the update that follows so many completed ones, instead of the curve that `scheduler`
   * describes. A resume asks the same function.
   */
  readonly schedule?: Schedule;
  /** In place of the one that `distributed` describes. */
  readonly coordinator?: SyncCoordinator;
  /** Where the nodes meet, in place of what `distributed.repo_id` names. You close it yourself. */
  readonly transport?: Transport;
  readonly hooks?: LoggerOptions["hooks"];
  /** File for a Chrome trace of where the time goes; true: `trace.json` in `run.output_dir`. Default: none. */
  readonly profile?: true | string;
  /** Where progress goes; none by default. */
  readonly stream?: LoggerOptions["stream"];
  /** Aborting it ends training after the update in progress, with a checkpoint. */
  readonly signal?: AbortSignal;
  /** Default `onnx`. */
  readonly backend?: EngineOptions["backend"];
}

export interface Runtime {
  readonly config: SpeedtronicConfig;
  readonly trainer: Trainer;
  readonly model: TrainableModel;
  readonly engine: TrainEngine;
  readonly logger: MetricLogger;
  readonly data: DataPipeline;
  readonly runId: string;
  /** Copies the present parameters into `model`. From building until the end of `fit` they are the engine's. */
  refreshModel(): Promise<void>;
  /**
   * Gives the parameters back to `model` and frees threads, files, locks and loggers; a `fit` in progress ends first
   * and rejects. Harmless when called twice.
   */
  close(): Promise<void>;
}

/**
 * Builds everything that `config` describes. Nothing trains yet. Throws ConfigError, DataError, ModelError or
 * CheckpointError; whatever was opened before is closed again.
 */
export async function buildRuntime(
  config: SpeedtronicConfig | ConfigInput,
  options: RuntimeOptions = {},
): Promise<Runtime> {
  const closers: (() => Promise<unknown> | unknown)[] = [];
  let closing: Promise<void> | undefined;
  const closeAll = async () => {
    for (const closer of closers.reverse()) await closer();
  };
  const close = () => {
    closing ??= closeAll();
    return closing;
  };
  try {
    checkRuntimeOptions(options);
    const plugins = await loadPlugins(pluginsOf(config));
    const resolved = resolveConfig(config as ConfigInput, { pluginsLoaded: true });
    return await compose(resolved, options, plugins, closers, close);
  } catch (error) {
    await close();
    throw error;
  }
}

/** Builds, trains and closes. Errors of building and of {@link Trainer.fit} pass through. */
export async function trainFromConfig(
  config: SpeedtronicConfig | ConfigInput,
  options: RuntimeOptions = {},
): Promise<TrainResult> {
  const runtime = await buildRuntime(config, options);
  try {
    return await runtime.trainer.fit();
  } finally {
    await runtime.close();
  }
}

async function compose(
  config: SpeedtronicConfig,
  asked: RuntimeOptions,
  plugins: LoadedPlugins,
  closers: (() => Promise<unknown> | unknown)[],
  close: () => Promise<void>,
): Promise<Runtime> {
  const options = await withPlugins(config, asked, plugins);
  const { dataset } = options;
  if (dataset && dataset !== asked.dataset) closers.push(() => dataset.close?.());
  const recomputes = config.gradient_checkpointing;
  const early = options.model ?? (recomputes ? buildConfiguredModel(config) : undefined);
  const hasAdapters = config.lora.rank !== null;
  const given = {
    hasDataset: options.dataset !== undefined,
    hasValidation: options.validation !== undefined,
    hasSchedule: options.schedule !== undefined,
    hasModel: options.model !== undefined,
    hasRecomputation: early?.setGradientCheckpointing !== undefined,
  };
  refuseUnsupported(config, given);
  // The engine's thread loads its native library while this thread reads data and traces the model.
  const engine = new WorkerEngine();
  closers.push(() => engine.close());

  const model = early ?? buildConfiguredModel(config);
  if (options.model) addConfiguredLora(model, config);
  if (recomputes) model.setGradientCheckpointing?.(true);
  // A model whose values another run holds keeps that state: this engine has none of them to give.
  const hasValues = [...model.namedParameters().values()].every((parameter) => parameter.hasData);
  if (hasValues) closers.push(() => giveBack(model, engine));
  const resume = options.resume ?? (config.checkpoint.resume ? "auto" : false);
  // Starting values take time and memory, and a resume overwrites them.
  const initializeOwn = () => {
    if (!options.model && !hasAdapters) initialize(model, config.run.seed);
  };
  const hasInitialWeights = options.initialWeights !== undefined;
  const adapters = hasAdapters ? await startAdapters(model, config, { hasInitialWeights }) : undefined;
  if (resume === false) initializeOwn();
  const threads = config.run.threads ?? defaultThreads();
  const modelTitle = options.model ? `the model ${model.constructor.name}` : `model "${config.model.name}"`;
  const created = engine.create(engineOptions(config, model, threads, options.backend ?? "onnx", modelTitle));
  created.catch(() => undefined);
  const data = await openData(config, options, closers);
  await created;

  const warnings: { message: string; details: Readonly<Record<string, unknown>> }[] = [];
  const { store, loaded, runId } = await openCheckpoints(config, resume, closers, (message, details) =>
    warnings.push({ message, details }),
  );
  if (store)
    await recordConfig(config).catch((error: Error) =>
      warnings.push({
        message: `the configuration is not in the run's folder: ${error.message}`,
        details: {},
      }),
    );
  if (resume !== false && !loaded) initializeOwn();
  const fingerprint = runFingerprint(config, model, data, adapters);
  const initial =
    options.initialWeights && !loaded
      ? await loadInitialWeights(model, options.initialWeights, fingerprint.model)
      : undefined;
  const logger = buildLogger(await loggerOptions(config, { ...options, runId }));
  closers.push(() => logger.close());
  for (const { message, details } of warnings) logger.warning("checkpoint", message, details);
  if (initial) logger.emit("weights_loaded", plainReport(initial));
  if (options.model && hasValues && !loaded && !initial && isAllZero(model))
    logger.warning(
      "model.all_zero",
      "every parameter of the model is zero, and most models cannot learn from there: was initialize(model, seed) forgotten?",
    );
  for (const notice of collectUnsupported(config, given).notices)
    logger.warning("config.notice", formatUnsupported(notice));
  for (const { code, message, details } of data.notices) logger.warning(code, message, details);

  const shapes = reportShapes(logger, config, model);

  const { runtime: engineRuntime, backend } = await engine.describe();
  const environment = currentEnvironment(threads, /^onnxruntime-node (.+)$/.exec(engineRuntime)?.[1]);
  logger.emit("run_info", await describeRun(config, environment));
  const { optimizer, data: dataConfig, compat, evaluation, checkpoint, run } = config;
  const precision = resolvePrecision(config.precision);
  const generator = isLanguageModel(model)
    ? new Generator({ model, backend: engineBackend(engine), feedsWeights: false })
    : undefined;
  if (generator) closers.push(() => generator.close());
  const sampling = config.sampling;
  const coordinator =
    options.coordinator ??
    (await openCoordinator(config, options, closers, logger, fingerprint, model, data));
  const trainer = new Trainer({
    model,
    engine,
    loader: data.train,
    logger,
    maxSteps: effectiveMaxSteps(config),
    accumulationSteps: accumulationSteps(config),
    lr: optimizer.lr,
    schedule: options.schedule ?? configuredSchedule(config),
    gradClip: optimizer.grad_clip,
    averaging: compat.microbatch_mean ? "microbatches" : "targets",
    nonFinite: { policy: optimizer.non_finite, maxConsecutiveSkips: optimizer.max_consecutive_skips },
    seed: run.seed,
    measuresMfu: backend === "onnx",
    reportsNextLr: compat.lr_metric_next,
    layerNormsEvery: config.logging.layer_norms,
    resetInnerOptimizer: config.distributed.reset_inner_optimizer,
    ...(options.signal ? { signal: options.signal } : {}),
    ...(coordinator ? { coordinator } : {}),
    ...(data.validation
      ? {
          validation: {
            dataset: data.validation,
            batchSize: evaluation.batch_size,
            everySteps: evaluation.every_steps,
            maxBatches: evaluation.max_batches,
            isByteLevel: data.tokenizer instanceof ByteTokenizer,
          },
        }
      : {}),
    ...(generator && (sampling.every_steps !== null || sampling.at_end)
      ? {
          sampling: {
            everySteps: sampling.every_steps,
            atEnd: sampling.at_end,
            prompts: [sampling.prompt, ...sampling.prompts],
            sample: (prompt: string, signal: AbortSignal | undefined) =>
              generateText({
                generator,
                tokenizer: data.tokenizer,
                prompt,
                maxNewTokens: sampling.max_new_tokens,
                temperature: sampling.temperature,
                topK: sampling.top_k,
                seed: sampling.seed,
                ...(signal ? { signal } : {}),
              }),
          },
        }
      : {}),
    ...(store
      ? {
          checkpoints: {
            store,
            everySteps: checkpoint.every_steps,
            keepEvery: checkpoint.keep_every,
            acceptDifferences: options.acceptDifferences ?? [],
            ...(hasAdapters ? { leavesOut: baseNames(model) } : {}),
            config: toPlainConfig(config) as Record<string, unknown>,
            fingerprint,
            environment,
          },
        }
      : {}),
    ...(initial ? { extra: { initialWeights: plainReport(initial) } } : {}),
    startInfo: {
      device_requested: run.device,
      device_reason: run.device === "auto" ? "the CPU is the only device of this engine" : "as requested",
      precision: precision.resolved,
      precision_requested: precision.requested,
      precision_reason: precision.reason,
      backend: engineRuntime,
      threads,
      model: config.model.name,
      seed: run.seed,
      micro_batch_size: dataConfig.micro_batch_size,
      block_size: dataConfig.block_size,
      output_dir: run.output_dir,
      shape_alignment: shapes.alignment,
      shape_warning_count: shapes.advice.length,
    },
  });
  closers.push(() => trainer.close());
  if (loaded) {
    await trainer.resume(loaded);
    await loaded.content.close();
  } else await moveToEngine(model, engine);
  // Once it is closed the model has the values already.
  let isClosed = false;
  closers.push(() => {
    isClosed = true;
  });
  const refresh = async () => {
    if (!isClosed) await refreshModel(model, engine);
  };
  return { config, trainer, model, engine, logger, data, runId, refreshModel: refresh, close };
}

async function openCoordinator(
  config: SpeedtronicConfig,
  options: RuntimeOptions,
  closers: (() => Promise<unknown> | unknown)[],
  logger: MetricLogger,
  fingerprint: Fingerprint,
  model: TrainableModel,
  { train, corpus }: DataPipeline,
): Promise<SyncCoordinator | undefined> {
  if (!config.distributed.enabled) return undefined;
  let { transport } = options;
  if (transport === undefined) {
    const opened = openTransport(config.distributed, process.env, (message) =>
      logger.warning("distributed.token", message),
    );
    closers.push(() => opened.close());
    transport = opened;
  }
  const { open } = config.distributed.role === "worker" ? WorkerCoordinator : MasterCoordinator;
  const coordinator = await open({
    config,
    transport,
    logger,
    fingerprint: fingerprint.model,
    bufferPolicies: bufferPolicies(model, config),
    data: corpus && { loader: train, corpus: hashCorpus(corpus) },
  });
  closers.push(() => coordinator.close());
  return coordinator;
}

async function openData(
  config: SpeedtronicConfig,
  options: RuntimeOptions,
  closers: (() => Promise<unknown> | unknown)[],
): Promise<DataPipeline> {
  const validation = options.validation && new CheckedDataset(options.validation, config.model.vocab_size);
  if (options.loader) {
    const tokenizer = options.tokenizer ?? new ByteTokenizer();
    return {
      train: namedBatches(options.loader),
      validation,
      tokenizer,
      fingerprint: { kind: "loader" },
      notices: [],
    };
  }
  const data = await buildDataloader({
    ...dataloaderOptions(config, options),
    onProgress: progressLines((text) => options.stream?.write(text)),
  });
  closers.push(() => data.train.close());
  return validation ? { ...data, validation } : data;
}

function isAllZero(model: TrainableModel): boolean {
  return [...model.namedParameters().values()].every((parameter) => parameter.data.every((x) => x === 0));
}
