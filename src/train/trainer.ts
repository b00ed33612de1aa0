// The training loop. One update: K microbatches, one averaged and clipped gradient, one optimiser step; then
// whatever is due: coordinator, metrics, evaluation, sample text, checkpoint. Knows nothing of configuration
// files, signals or processes. Long because the loop is one idea: each part of it reads and moves the same state.

import type { JsonObject } from "../checkpoint/content.js";
import type { LoadedCheckpoint, OpenedCheckpoint } from "../checkpoint/load.js";
import type { DataPosition, LoadedBatch } from "../data/types.js";
import { RateMeter } from "../observe/rate-meter.js";
import { checkSchedule, RunSchedule, type Schedule } from "../schedule/index.js";
import type { TensorData } from "../tensor/dtype.js";
import { countFlops } from "../tensor/flops.js";
import { rngInputName } from "../tensor/trace/context.js";
import type { Graph } from "../tensor/trace/graph.js";
import { ConfigError, TrainingError } from "../util/errors.js";
import { collectGarbage } from "../util/garbage.node.js";
import { Checkpointer, refreshModel, type SavedState } from "./checkpointer.js";
import { type CoordinatedRun, noCoordinatorState, stateOf } from "./coordinator.js";
import type { UpdateResult } from "./engine/contract.js";
import { evaluateDataset } from "./evaluation.js";
import { MeterState } from "./meter.js";
import { measurePeakFlops } from "./peak-flops.js";
import { defaultProgramLimit, ProgramCache } from "./programs.js";
import type { StopReason, TrainResult } from "./result.js";
import { fromTrainerState, initialState, type RunState, toTrainerState } from "./state.js";
import { StepTimes } from "./step-times.js";
import { type BatchTypes, bufferFeeds, keepBuffers, traceEvaluation, traceTraining } from "./trace-model.js";
import type { TrainerOptions } from "./trainer-options.js";
import { replaceState, wholeState } from "./whole-state.js";

/** Updates before the machine's peak is measured: the first ones are slow and worth showing soon. */
const stepsBeforePeak = 5;

export class Trainer {
  readonly #options: TrainerOptions;
  readonly #checkpointer: Checkpointer | undefined;
  readonly #training: ProgramCache;
  readonly #evaluation: ProgramCache;
  readonly #schedule: Schedule;
  /** Aborted by {@link close}: ends a fit in progress. */
  readonly #closing = new AbortController();
  /** The options' signal or {@link close}. */
  readonly #stop: AbortSignal;
  /** Settles when the fit in progress has ended; undefined when there is none. */
  #running: Promise<unknown> | undefined;
  #state: RunState = initialState();
  #restoredCoordinator = noCoordinatorState;
  #lastEvaluation: { step: number; loss: number; tokens: number } | null = null;
  #consecutiveSkips = 0;
  #times = new StepTimes();
  #epoch: number;
  /** Whether engine, counters and coordinator are those of one whole step: only then may a failing run be saved. */
  #isWhole = true;
  /** What a failure in the middle of a step must be undone to. */
  #lastWhole: { data: DataPosition; microbatches: number };

  constructor(options: TrainerOptions) {
    this.#options = options;
    const { model, engine, logger, checkpoints } = options;
    if (!Number.isInteger(options.maxSteps) || options.maxSteps < 1)
      throw new ConfigError(`maxSteps must be a positive integer, got ${options.maxSteps}`, {
        code: "train.max_steps",
      });
    const { schedule = () => 1 } = options;
    this.#schedule = schedule instanceof RunSchedule ? (done) => schedule.at(done) : checkSchedule(schedule);
    const { signal } = this.#closing;
    this.#stop = options.signal ? AbortSignal.any([options.signal, signal]) : signal;
    // The programs of one update are all in use at once.
    const limit = Math.max(defaultProgramLimit, options.accumulationSteps ?? 1);
    // Batches of other shapes may go other ways through the model; the first must reach every parameter.
    let allowsUnreached = false;
    const trace = (types: BatchTypes) => {
      const graph = traceTraining(model, types, { allowsUnreached });
      allowsUnreached = true;
      return graph;
    };
    const feeds = (graph: Graph) => bufferFeeds(model, graph);
    this.#training = new ProgramCache(engine, trace, limit, feeds);
    this.#evaluation = new ProgramCache(engine, (types) => traceEvaluation(model, types), undefined, feeds);
    this.#checkpointer = checkpoints && new Checkpointer(checkpoints, model, engine, logger);
    if (options.extra) this.#state.extra = options.extra;
    const data = options.loader.position();
    this.#epoch = data.epoch;
    this.#lastWhole = { data, microbatches: 0 };
  }

  /** Updates done, counted from the run's first start. */
  get step(): number {
    return this.#state.step;
  }

  /**
   * Continues from a checkpoint: parameters, optimiser, counters and data position. Throws before anything is
   * changed when it does not fit. Returns what is worth telling. An opened checkpoint is streamed in, so that its
   * tensors are never in memory a second time; closing it is the caller's.
   */
  async resume(loaded: LoadedCheckpoint | OpenedCheckpoint): Promise<string[]> {
    if (!this.#checkpointer)
      throw new ConfigError("a trainer without checkpoints cannot resume", { code: "train.resume" });
    const { trainer } = loaded.content;
    const { loader } = this.#options;
    const place = loader.position();
    loader.seek(trainer.data);
    let restored: Awaited<ReturnType<Checkpointer["restore"]>>;
    try {
      restored = await this.#checkpointer.restore(loaded);
    } catch (error) {
      loader.seek(place);
      throw error;
    }
    const { schedule } = this.#options;
    const moved = schedule instanceof RunSchedule && schedule.resume(trainer.schedule, trainer.step);
    const notes = moved ? [...restored.notes, moved] : restored.notes;
    this.#state = fromTrainerState(trainer);
    this.#epoch = trainer.data.epoch;
    this.#markWhole();
    this.#restoredCoordinator = restored.coordinator;
    const { skipped } = loaded;
    const { epoch, position } = trainer.data;
    this.#options.logger.emit("resume", {
      step: trainer.step,
      path: loaded.info.path,
      epoch,
      position,
      skipped,
      notes,
    });
    return notes;
  }

  /**
   * Trains up to the target step. Throws TrainingError when numbers break (the last good checkpoint stays),
   * CheckpointError when the last save fails, ConfigError when it is training already or closed, and whatever data
   * or model throw. However it ends, the model has the parameters of the last update afterwards.
   */
  async fit(): Promise<TrainResult> {
    this.#refuseIfClosed();
    if (this.#running)
      throw new ConfigError("this trainer is training already: wait for the first fit() to end", {
        code: "train.already_training",
      });
    const run = this.#fit();
    this.#running = run;
    try {
      return await run;
    } finally {
      this.#running = undefined;
    }
  }

  async #fit(): Promise<TrainResult> {
    const { logger, signal } = this.#options;
    this.#checkpointer?.requireWhole();
    const started = performance.now();
    const target = Math.max(this.#state.step, this.#options.maxSteps);
    const isAtTarget = this.#state.step >= target;
    this.#times = new StepTimes();
    this.#emitStart(target);
    let finalLoss: number | null = null;
    let stop = { kind: "target" } as StopReason;
    if (!isAtTarget || (await this.#hasUnsent())) {
      try {
        await this.#coordinated(async () => {
          if (isAtTarget) return;
          const meter = this.#newMeter(target);
          // Without it the first save takes longer, nothing else: failing here is no failure.
          this.#checkpointer?.prepare(this.#state.step, target).catch(() => undefined);
          try {
            while (this.#state.step < target && !this.#stop.aborted)
              finalLoss = (await this.#step(meter, target)) ?? finalLoss;
            this.#refuseIfClosed();
            if (this.#state.step < target)
              stop = { kind: "stopped", cause: String(signal?.reason ?? "aborted") };
            else await this.#finish();
          } catch (error) {
            await this.#saveAfterFailure();
            throw error;
          }
          await this.#saveFinal(stop);
        });
      } catch (error) {
        await this.#checkpointer?.settle();
        logger.emit("train_end", {
          steps: this.#state.step,
          elapsed_s: elapsedS(started),
          loss: finalLoss,
          reason: "error",
          times: this.#times.totals(),
        });
        // An engine that has failed has no values to give.
        await refreshModel(this.#options.model, this.#options.engine).catch(() => undefined);
        throw error;
      }
    }
    await refreshModel(this.#options.model, this.#options.engine);
    const { step, samples, tokens } = this.#state;
    logger.emit("train_end", {
      steps: step,
      elapsed_s: elapsedS(started),
      loss: finalLoss,
      samples,
      tokens,
      reason: stop.kind === "target" ? "target" : stop.cause,
      validation_loss: this.#lastEvaluation?.loss,
      times: this.#times.totals(),
    });
    return {
      steps: step,
      samples,
      tokens,
      finalLoss,
      validation: this.#lastEvaluation,
      elapsedS: elapsedS(started),
      stop,
    };
  }

  /**
   * Frees compiled graphs. A fit in progress ends first, after the update that it is at, saves and rejects. The engine
   * and the loader are the caller's.
   */
  async close(): Promise<void> {
    this.#closing.abort("closed");
    await this.#running?.catch(() => undefined);
    await this.#checkpointer?.settle();
    await this.#training.close();
    await this.#evaluation.close();
  }

  #refuseIfClosed(): void {
    if (this.#closing.signal.aborted)
      throw new ConfigError(
        "this trainer is closed: wait for fit() to end before closing, and build a new one to train on",
        { code: "train.closed" },
      );
  }

  /** One update and what is due after it. Null when it was skipped. */
  async #step(meter: MeterState, target: number): Promise<number | null> {
    const { lr, gradClip = null, averaging = "targets", loader, coordinator, logger } = this.#options;
    const { layerNormsEvery } = this.#options;
    const dataStarted = performance.now();
    const batches: LoadedBatch[] = [];
    for (let i = 0; i < (this.#options.accumulationSteps ?? 1); i++) batches.push(await loader.next());
    const dataS = elapsedS(dataStarted);
    this.#noteEpoch(batches);
    const microbatches = [];
    const compileStarted = performance.now();
    for (const loaded of batches) microbatches.push(await this.#microbatch(loaded, meter));
    const compileS = elapsedS(compileStarted);
    if (!meter.isWarm) {
      meter.isWarm = true;
      collectGarbage();
    }
    const rate = lr * this.#schedule(this.#state.step);
    this.#isWhole = false;
    const result = await this.#options.engine.update({
      microbatches,
      lr: rate,
      count: this.#state.optimizerUpdates + 1,
      gradClip,
      averaging,
      layerNorms: layerNormsEvery != null && (this.#state.step + 1) % layerNormsEvery === 0,
    });
    const [graphS, optimizerS] = [result.times.graphMs / 1000, result.times.updateMs / 1000];
    this.#times.add("data", dataS);
    this.#times.add("compile", compileS);
    this.#times.add("graph", graphS);
    this.#times.add("optimizer", optimizerS);
    if (!result.applied) {
      this.#skip(result);
      this.#markWhole();
      return null;
    }
    this.#consecutiveSkips = 0;
    keepBuffers(this.#options.model, result.buffers);
    this.#state.step += 1;
    this.#state.optimizerUpdates += 1;
    for (const { samples, tokens } of batches) {
      this.#state.samples += samples;
      this.#state.tokens += tokens;
    }
    const syncStarted = performance.now();
    if (coordinator && (await coordinator.afterOptimizerStep(this.#coordinatedRun(), this.#state.step)))
      await this.#afterSync();
    const syncS = coordinator ? elapsedS(syncStarted) : undefined;
    if (syncS !== undefined) this.#times.add("sync", syncS);
    this.#markWhole();
    const { step, samples, tokens } = this.#state;
    const nextRate = lr * this.#schedule(step);
    const rates = meter.rates.record({ step, samples, tokens });
    logger.emit("train_step", {
      ...result.metrics,
      step,
      loss: result.loss,
      lr: this.#options.reportsNextLr ? nextRate : rate,
      steps_per_sec: rates.stepsPerSec,
      samples_per_sec: rates.samplesPerSec,
      tokens_per_sec: rates.tokensPerSec,
      samples,
      tokens,
      micro_batches: batches.length,
      next_lr: nextRate,
      grad_norm: result.gradNorm,
      tokens_per_sec_train: rates.tokensPerSecTrain,
      mfu: meter.mfu(rates.tokensPerSecTrain),
      eta_s: rates.etaS,
      epoch: this.#epoch,
      target_tokens: result.targets,
      step_s: rates.stepS,
      data_s: dataS,
      compile_s: compileS,
      graph_s: graphS,
      optimizer_s: optimizerS,
      sync_s: syncS,
      rss_bytes: process.memoryUsage.rss(),
    });
    if (result.layers) logger.emit("layer_norms", { step, ...result.layers });
    await this.#periodicWork(meter, step, target);
    return result.loss;
  }

  async #periodicWork(meter: MeterState, step: number, target: number): Promise<void> {
    const { validation, sampling, measuresMfu, engine } = this.#options;
    const isDue = (every: number | null | undefined) => every != null && step % every === 0 && step < target;
    if (measuresMfu && !meter.peakFlops && step - meter.startStep === stepsBeforePeak)
      meter.peakFlops = await meter.rates.paused(() => measurePeakFlops(engine));
    if (isDue(validation?.everySteps)) await meter.rates.paused(() => this.#evaluate());
    if (isDue(sampling?.everySteps)) await meter.rates.paused(() => this.#sample());
    if (step < target && this.#checkpointer?.isDue(step))
      await meter.rates.paused(() =>
        this.#times.during("checkpoint", async () =>
          this.#checkpointer!.savePeriodic(await this.#savedState()),
        ),
      );
  }

  /** What the end of a run that reached its target brings. */
  async #finish(): Promise<void> {
    const { validation, sampling } = this.#options;
    if (validation) await this.#evaluate();
    if (sampling?.atEnd) await this.#sample();
  }

  async #saveFinal(stop: StopReason): Promise<void> {
    if (this.#state.step === 0 || !this.#checkpointer) return;
    const { cause } = stop.kind === "target" ? { cause: "final" } : stop;
    const checkpointer = this.#checkpointer;
    await this.#times.during("checkpoint", async () =>
      checkpointer.saveFinal(await this.#savedState(), cause),
    );
  }

  /**
   * Data, evaluation or a hook failed: the last whole step is still there and is saved, so that nothing is lost. Not
   * after a failed update or synchronisation, nor after broken numbers: that state is not worth keeping.
   */
  async #saveAfterFailure(): Promise<void> {
    if (this.#state.step === 0 || !this.#checkpointer || !this.#isWhole) return;
    this.#state.microbatches = this.#lastWhole.microbatches;
    // Why it cannot be saved is an event; the first failure is the one that ends the run.
    await this.#checkpointer
      .saveFinal(await this.#savedState(this.#lastWhole.data), "error")
      .catch(() => undefined);
  }

  #markWhole(): void {
    this.#isWhole = true;
    this.#lastWhole = { data: this.#options.loader.position(), microbatches: this.#state.microbatches };
  }

  async #microbatch({ batch, targetTokens }: LoadedBatch, meter: MeterState) {
    const program = await this.#training.get(batch);
    meter.flops ??= { perToken: countFlops(program.graph) / Math.max(1, targetTokens) };
    const draw = this.#state.microbatches++;
    const feeds: Record<string, TensorData> = { ...batch, ...program.feeds() };
    if (program.isRandom)
      feeds[rngInputName] = {
        dtype: "int32",
        shape: [2],
        data: Int32Array.of(this.#options.seed ?? 0, draw),
      };
    return { program: program.id, feeds, weight: targetTokens };
  }

  #skip(result: UpdateResult): void {
    const { policy, maxConsecutiveSkips } = this.#options.nonFinite ?? {
      policy: "stop",
      maxConsecutiveSkips: 0,
    };
    const broken = Number.isFinite(result.loss)
      ? `gradient norm is ${result.gradNorm}`
      : `loss is ${result.loss}`;
    const step = this.#state.step + 1;
    this.#consecutiveSkips += 1;
    this.#state.skippedUpdates += 1;
    this.#options.logger.emit("optimizer_step_skipped", {
      step,
      reason: Number.isFinite(result.loss) ? "non_finite_gradient" : "non_finite_loss",
      loss: result.loss,
      grad_norm: result.gradNorm,
      consecutive: this.#consecutiveSkips,
    });
    if (policy === "skip" && this.#consecutiveSkips <= maxConsecutiveSkips) return;
    const isPatient = policy === "skip";
    const times = isPatient ? ` for ${this.#consecutiveSkips} updates in a row` : "";
    throw new TrainingError(
      `step ${step}: the ${broken}${times}; the weights of step ${step - 1} were kept and nothing was overwritten. ` +
        (isPatient
          ? "Lower optimizer.lr, or set optimizer.grad_clip"
          : 'Lower optimizer.lr, set optimizer.grad_clip, or set optimizer.non_finite to "skip"'),
      { code: "train.non_finite", details: { step, loss: result.loss, gradNorm: result.gradNorm } },
    );
  }

  #evaluate(): Promise<void> {
    return this.#times.during("evaluation", () => this.#evaluateAll());
  }

  async #evaluateAll(): Promise<void> {
    const { validation, engine, logger } = this.#options;
    if (!validation) return;
    const { dataset, batchSize, maxBatches } = validation;
    const options = { batchSize, maxBatches, signal: this.#stop };
    const result = await evaluateDataset(engine, this.#evaluation, dataset, options);
    if (!result) return;
    const { step } = this.#state;
    const best = !this.#state.bestValidation || result.loss < this.#state.bestValidation.loss;
    if (best && Number.isFinite(result.loss)) this.#state.bestValidation = { step, loss: result.loss };
    this.#lastEvaluation = { step, loss: result.loss, tokens: result.tokens };
    logger.emit("evaluation", {
      step,
      loss: result.loss,
      perplexity: Math.exp(result.loss),
      ...(validation.isByteLevel ? { bits_per_byte: result.loss / Math.LN2 } : {}),
      tokens: result.tokens,
      elapsed_s: result.elapsedS,
      best,
    });
  }

  async #sample(): Promise<void> {
    const { sampling } = this.#options;
    for (const prompt of sampling?.prompts ?? [])
      await this.#times.during("sample", () => this.#sampleFrom(prompt));
  }

  async #sampleFrom(prompt: string): Promise<void> {
    const { sampling, logger } = this.#options;
    const signal = this.#stop;
    if (!sampling || signal.aborted) return;
    const started = performance.now();
    const text = await sampling.sample(prompt, signal).catch((error: unknown) => {
      if (signal.aborted) return undefined;
      throw error;
    });
    if (text === undefined) return;
    logger.emit("sample", { step: this.#state.step, text, prompt, sample_s: elapsedS(started) });
  }

  /** Whether a run that has reached its end still has something to hand over, as after a crash at that moment. */
  async #hasUnsent(): Promise<boolean> {
    const { coordinator } = this.#options;
    if (!coordinator?.hasUnsent) return false;
    const { state, tensors } = this.#restoredCoordinator;
    if (state !== null) await coordinator.prepareState?.(state, tensors);
    return coordinator.hasUnsent();
  }

  /** Runs `work` between the coordinator's start and its stop, if there is one. */
  async #coordinated(work: () => Promise<void>): Promise<void> {
    const { coordinator, logger } = this.#options;
    if (!coordinator) return work();
    const { state, tensors } = this.#restoredCoordinator;
    if (state !== null && coordinator.prepareState) await coordinator.prepareState(state, tensors);
    await coordinator.start(this.#coordinatedRun());
    // It may have put other data in front.
    if (this.#isWhole) this.#markWhole();
    try {
      if (state !== null && !coordinator.prepareState) await coordinator.loadStateDict(state, tensors);
      this.#restoredCoordinator = noCoordinatorState;
      await work();
    } catch (error) {
      try {
        await coordinator.stop();
      } catch (second) {
        // The first failure is the one that ends the run.
        logger.warning("train.coordinator_stop", `the coordinator could not be stopped: ${String(second)}`);
      }
      throw error;
    }
    await coordinator.stop();
  }

  async #afterSync(): Promise<void> {
    if (!this.#options.resetInnerOptimizer) return;
    await this.#options.engine.writeOptimizer(new Map());
    this.#state.optimizerUpdates = 0;
  }

  #coordinatedRun(): CoordinatedRun {
    const { engine, model, signal } = this.#options;
    return {
      step: this.#state.step,
      signal,
      tokens: this.#state.tokens,
      readParameters: () => engine.readParameters(),
      writeParameters: (values) => engine.writeParameters(values),
      readState: async () => wholeState(model, await engine.readParameters()),
      writeState: (values) => replaceState(model, engine, values),
    };
  }

  async #savedState(data = this.#options.loader.position()): Promise<SavedState> {
    const { seed = 0, coordinator, lr, schedule } = this.#options;
    const { step } = this.#state;
    // A run without one keeps what the checkpoint had.
    const saved = coordinator ? await stateOf(coordinator) : this.#restoredCoordinator;
    const trainer = toTrainerState(this.#state, {
      data,
      evaluation: this.#lastEvaluation,
      seed,
      schedule: {
        lr: lr * this.#schedule(step),
        ...(schedule instanceof RunSchedule ? schedule.save(step) : {}),
      } as JsonObject,
      coordinator: saved.state,
    });
    return { trainer, coordinator: saved.tensors };
  }

  #noteEpoch(batches: readonly LoadedBatch[]): void {
    for (const { epoch } of batches) {
      if (epoch === this.#epoch) continue;
      this.#epoch = epoch;
      this.#options.logger.emit("data_epoch", { epoch, step: this.#state.step + 1 });
    }
  }

  #newMeter(target: number): MeterState {
    const { step, samples, tokens } = this.#state;
    return new MeterState(new RateMeter({ start: { step, samples, tokens }, targetStep: target }), step);
  }

  #emitStart(target: number): void {
    const { model, accumulationSteps = 1, startInfo } = this.#options;
    this.#options.logger.emit("train_start", {
      start_step: this.#state.step,
      target_step: target,
      device: "cpu",
      precision: "fp32",
      accumulation_steps: accumulationSteps,
      parameters: model.parameterCount(),
      shape_alignment: null,
      shape_warning_count: 0,
      ooo_backprop: null,
      ...startInfo,
    });
  }
}

const elapsedS = (startedMs: number): number => (performance.now() - startedMs) / 1000;
