// A training node: runs what the worker's reducer asks for. Between two local steps it reads and writes the weights;
// everything that touches the network goes on beside training, in lanes of its own, and can only ever produce events.
// Long because all lanes share one state.

import type { TensorReader } from "../../formats/safetensors/index.js";
import type { TensorData } from "../../tensor/dtype.js";
import { fingerprintText, type ModelFingerprint } from "../protocol/fingerprint.js";
import { createWorker, stepWorker } from "../protocol/worker.js";
import type {
  PendingDelta,
  SeenVersion,
  WorkerEffect,
  WorkerEvent,
  WorkerSettings,
  WorkerState,
} from "../protocol/worker-contract.js";
import { type BackoffSettings, backoffMs, raceMs } from "../transports/backoff.js";
import type { Transport } from "../transports/contract.js";
import { TransportError } from "../transports/errors.js";
import type { BufferPolicies } from "../wire/buffer-merge.js";
import { computePseudoGradient, DeltaSummary, loadDelta, writeDelta } from "../wire/index.js";
import { type AttemptOptions, attempt, errorText, isPermanentError, retryAfterMs } from "./attempts.js";
import { type Clock, within } from "./clock.js";
import type { NodeError } from "./errors.js";
import { fetchVersion, globalFileName } from "./fetch-version.js";
import {
  carryProgress,
  keepLocalBuffers,
  loadState,
  type ModelState,
  openRoomFile,
  saveState,
  subtractDeltas,
} from "./model-state.js";
import { asOtherModel } from "./other-model.js";
import { type NewHasher, type NodeRecord, type Outbox, outgoingName } from "./outbox.js";
import { beginProgress, takeProgress } from "./progress-book.js";
import { RecordKeeper } from "./record-keeper.js";
import { checkpointDocument, parseCheckpoint, planRestart, type RestartPlan } from "./restart.js";
import { sendDelta } from "./send-delta.js";
import { TwinWatch } from "./twin-watch.js";
import { readVersion } from "./version-reader.js";

/** The model in training. Called between two local steps only. */
export interface LocalModel {
  /** Copies of the whole state dict, with every name of tied tensors. */
  readState(): Promise<Map<string, TensorData>>;
  writeState(values: ModelState): Promise<void>;
}

/** The node's data, where it is shared with others. Called between two local steps only. */
export interface SharedData {
  /**
   * After a restart from a checkpoint, before all else. `pending`: sequences of this node's deltas that are there and not
   * decided. `progress`: where that since the checkpoint's last delta is: not taken yet, lost with the node's files, or in
   * the delta of this sequence, which was taken after the checkpoint.
   */
  restarted(pending: readonly number[], progress: "open" | "lost" | number): void;
  /** More keys for the header of the delta that is taken now; `pending`: sequences of all that are not decided. */
  headerFields(sequence: number, pending: readonly number[]): Readonly<Record<string, string>>;
  /** The version is in the weights now; `kept`: sequences of this node's deltas that it does not decide. */
  versionInstalled(version: SeenVersion, kept: readonly number[]): void;
}

export interface WorkerNodeOptions extends Omit<WorkerSettings, "salt"> {
  readonly transport: Transport;
  readonly outbox: Outbox;
  readonly fingerprint: ModelFingerprint;
  readonly clock: Clock;
  /** From 0 to below 1. */
  readonly random: () => number;
  readonly newHasher: NewHasher;
  readonly pollIntervalMs: number;
  readonly backoff: BackoffSettings;
  /** Tries before a request counts as failed. */
  readonly attempts: number;
  readonly data?: SharedData | undefined;
  /** Of the model's buffers; others are treated like weights. */
  readonly bufferPolicies?: BufferPolicies | undefined;
  /** Name and payload of an event of the catalogue. */
  emit(event: string, payload: Readonly<Record<string, unknown>>): void;
  /** Longest wait at the start for an answer of the repository. Default 10 s. */
  readonly startWaitMs?: number;
  /** Longest wait of a node without a version for the first one to be fetched. Default 5 minutes. */
  readonly firstInstallWaitMs?: number;
  /** Baselines of checkpoints that are kept. Default 4. */
  readonly keepBaselines?: number;
}

type StepContext = Extract<WorkerEvent, { readonly type: "step" | "idle" | "stop" }>;

const START_WAIT_MS = 10_000;
const FIRST_INSTALL_WAIT_MS = 300_000;
/** How often something is tried again that cannot succeed unless somebody does something about it. */
const BLOCKED_RETRY_MS = 600_000;
const LAST_SAVE_MS = 5_000;
/** For requests to notice that the node has ended. */
const LAST_ANSWER_MS = 10_000;

export class WorkerNode {
  readonly #options: WorkerNodeOptions;
  readonly #ending = new AbortController();
  readonly #waiters = new Set<() => void>();
  #keeper: RecordKeeper | undefined;
  #state: WorkerState;
  #salt = "";
  #lastTaken = 0;
  #progress = beginProgress(undefined);
  #baseline: ModelState = new Map();
  /** Where the present baseline is on disk. */
  #baselineFile: string | undefined;
  #previousSha256 = "";
  /** Settles when the snapshot in progress is on disk, or given up. */
  #taking: Promise<void> = Promise.resolve();
  #polling: Promise<void> = Promise.resolve();
  #sending: Promise<void> = Promise.resolve();
  #fetching: Promise<void> = Promise.resolve();
  /** There is progress that the last snapshot could not put on disk. */
  #isUnwritten = false;
  /** That the repository's weights are of another model. */
  #otherModel: NodeError | undefined;
  #fetchAbort = new AbortController();
  /** Deltas that were tried before, maybe by an earlier process. */
  #isRetrying = false;
  readonly #tried = new Set<number>();
  readonly #twins: TwinWatch;
  #trouble: string | undefined;
  #lastUploadError: string | undefined;
  #lastRefusal: string | undefined;
  #hasInstalled = false;
  #isStarted = false;

  constructor(options: WorkerNodeOptions) {
    this.#options = options;
    this.#twins = new TwinWatch(options.nodeId);
    this.#state = createWorker(this.#settings());
  }

  /** The reducer's state, for displays and tests. */
  get state(): WorkerState {
    return this.#state;
  }

  /**
   * Goes on from the node's own files and `saved` (what {@link checkpoint} gave), looks at the repository, and installs
   * a version if there is one and the node has none. Waits for an answer only as long as the options say, and not beyond
   * the end of `signal`.
   * @throws TransportError if the repository refuses this node for good; NodeError if its files cannot be used, or if
   *   the first version that it finds is of another model.
   */
  async start(model: LocalModel, saved?: unknown, signal?: AbortSignal): Promise<void> {
    const { clock, startWaitMs = START_WAIT_MS, firstInstallWaitMs = FIRST_INSTALL_WAIT_MS } = this.#options;
    await this.#restore(model, saved);
    let refusal: unknown;
    const looked = new Promise<void>((resolve) => {
      this.#polling = this.#poll((error) => {
        refusal ??= error;
        resolve();
      });
    });
    await within(looked, startWaitMs, clock, signal);
    if (refusal !== undefined) {
      await this.#end();
      throw refusal;
    }
    if (this.#state.installed === undefined)
      await within(
        this.#until(({ candidate }) => candidate === undefined || candidate.stage === "ready"),
        firstInstallWaitMs,
        clock,
        signal,
      );
    if (this.#state.installed === undefined && this.#otherModel !== undefined) {
      await this.#end();
      throw this.#otherModel;
    }
    await this.#between({ type: "idle" }, model);
  }

  /** After each local step that counts. True if a version was installed, so that the weights are others now. */
  afterStep(model: LocalModel, step: number, tokens: number): Promise<boolean> {
    return this.#between({ type: "step", step, tokens }, model);
  }

  /** Plain JSON for a checkpoint of the weights as they are. Call it between two steps. */
  async checkpoint(): Promise<ReturnType<typeof checkpointDocument>> {
    await this.#taking;
    const baseline = (await this.#saveBaseline()) ?? null;
    // A checkpoint that knows of a delta which the record on disk does not would take its steps for sent.
    if (this.#keeper) await within(this.#keeper.saved(), LAST_SAVE_MS, this.#options.clock);
    return checkpointDocument({ ...this.#record(), baseline });
  }

  /** Like {@link checkpoint}, without a file: for weights that have no progress since the last snapshot, as after {@link stop}. */
  summary(): ReturnType<typeof checkpointDocument> {
    return checkpointDocument({ ...this.#record(), baseline: null });
  }

  /** The last snapshot, and up to `timeoutMs` for what still has to be sent. The rest is sent after the next start. */
  async stop(model: LocalModel, timeoutMs: number): Promise<void> {
    if (!this.#isStarted || this.#ending.signal.aborted) return;
    const { clock, emit } = this.#options;
    try {
      await this.#between({ type: "stop" }, model);
      await this.#taking;
    } catch (error) {
      emit("node_state_failed", { error: errorText(error) });
    }
    // Also without an answer of the repository so far: it may come, and then what was held back is sent.
    const isDone = ({ pending, isBlocked }: WorkerState) =>
      isBlocked || pending.every(({ stage }) => stage === "sent");
    await within(this.#until(isDone), timeoutMs, clock);
    const left = this.#state.pending.filter(({ stage }) => stage !== "sent").length;
    await this.#end();
    emit("node_stop", {
      step: this.#state.localStep,
      installed: this.#state.installed ?? null,
      unsent_deltas: left + (this.#isUnwritten ? 1 : 0),
    });
  }

  async #restore(model: LocalModel, saved: unknown): Promise<void> {
    const { outbox, emit, clock, backoff, random, nodeId, transport } = this.#options;
    const checkpoint = saved === undefined || saved === null ? undefined : parseCheckpoint(saved);
    const plan = planRestart(await outbox.load(), checkpoint, () => randomText(random));
    if (plan.isStateLost)
      emit("node_state_failed", {
        error: `the files of node "${nodeId}" are not those of the checkpoint; what they held is lost`,
      });
    this.#salt = plan.salt;
    this.#hasInstalled = plan.worker.installed !== undefined;
    this.#lastTaken = plan.lastTaken;
    this.#progress = plan.progress;
    this.#baseline = await this.#restoreBaseline(model, plan);
    const pending = await this.#presentDeltas(plan.worker.pending);
    this.#state = createWorker(this.#settings(), { ...plan.worker, pending });
    for (const { sequence } of this.#state.pending) this.#tried.add(sequence);
    if (checkpoint !== undefined) {
      const isOpen = this.#baselineFile !== undefined || checkpoint.worker.stepsSinceSnapshot === 0;
      const progress = plan.isStateLost ? "lost" : isOpen ? "open" : (plan.takenIn ?? "lost");
      this.#options.data?.restarted(
        this.#state.pending.map(({ sequence }) => sequence),
        progress,
      );
    }
    this.#previousSha256 = this.#state.pending.at(-1)?.sha256 ?? "";
    this.#keeper = new RecordKeeper({
      outbox,
      clock,
      backoff,
      random,
      signal: this.#ending.signal,
      onFailure: (error) => emit("node_state_failed", { error: errorText(error) }),
    });
    this.#keeper.update(this.#record());
    this.#isStarted = true;
    emit("node_start", {
      node_id: nodeId,
      repository: transport.title,
      installed: this.#state.installed ?? null,
      pending_deltas: this.#state.pending.length,
    });
  }

  async #restoreBaseline(model: LocalModel, { baseline }: RestartPlan): Promise<ModelState> {
    const current = await model.readState();
    if (baseline === undefined) return current;
    const { outbox, emit } = this.#options;
    try {
      const state = await loadState(outbox.baselines, baseline, current);
      this.#baselineFile = baseline;
      return state;
    } catch (error) {
      emit("node_state_failed", {
        error: `the baseline of the checkpoint is gone, so that its latest local steps reach nobody (${errorText(error)})`,
      });
      return current;
    }
  }

  /** Of the pending deltas those whose file is there; files without a delta are removed. */
  async #presentDeltas(pending: readonly PendingDelta[]): Promise<PendingDelta[]> {
    const { outbox, emit } = this.#options;
    const names = new Set(pending.map(outgoingName));
    const files = await outbox.outgoing.list();
    for (const name of files) if (!names.has(name)) await outbox.outgoing.remove(name);
    return pending.filter((delta) => {
      const isPresent = files.includes(outgoingName(delta));
      if (!isPresent)
        emit("delta_dropped", { step: delta.localStep, steps: delta.steps, reason: "file_missing" });
      return isPresent;
    });
  }

  /** Runs an event whose effects may touch the weights, in order. */
  async #between(event: StepContext, model: LocalModel): Promise<boolean> {
    let isInstalled = false;
    for (const effect of this.#advance(event)) {
      if (effect.type === "snapshot") await this.#snapshot(model, effect.delta);
      else if (effect.type === "install") {
        await this.#install(model, effect.version, effect.keep);
        isInstalled = true;
      } else this.#run(effect);
    }
    return isInstalled;
  }

  /** Runs an event of a lane. */
  #dispatch(event: Exclude<WorkerEvent, StepContext>): void {
    if (this.#ending.signal.aborted) return;
    for (const effect of this.#advance(event)) this.#run(effect);
  }

  #advance(event: WorkerEvent): readonly WorkerEffect[] {
    const before = this.#state;
    const { state, effects } = stepWorker(before, event);
    this.#state = state;
    const isRecorded =
      state.pending === before.pending &&
      state.nextSequence === before.nextSequence &&
      state.installed === before.installed &&
      state.hasLedger === before.hasLedger;
    if (!isRecorded) this.#keeper?.update(this.#record());
    for (const wake of [...this.#waiters]) wake();
    return effects;
  }

  #run(effect: WorkerEffect): void {
    switch (effect.type) {
      case "emit":
        if (effect.event === "delta_uploaded") this.#lastUploadError = undefined;
        if (effect.event === "delta_upload_failed") {
          // The same permanent failure again is no news.
          if (effect.payload.error === this.#lastUploadError) return;
          this.#lastUploadError = String(effect.payload.error);
        }
        this.#options.emit(effect.event, effect.payload);
        return;
      case "send":
        this.#sending = this.#sending.then(() => this.#send(effect.delta));
        return;
      case "fetch": {
        this.#fetchAbort.abort();
        this.#fetchAbort = new AbortController();
        const signal = AbortSignal.any([this.#fetchAbort.signal, this.#ending.signal]);
        this.#fetching = this.#fetching.then(() => this.#fetch(effect.version, signal));
        return;
      }
      case "forget":
        void this.#forget(effect.delta);
        return;
      default:
        throw new Error(`the effect ${effect.type} was asked for outside of a step`);
    }
  }

  /** The record goes first, so that it never names a file that is gone. */
  async #forget(delta: PendingDelta): Promise<void> {
    await this.#keeper?.saved();
    await this.#options.outbox.outgoing.remove(outgoingName(delta)).catch(() => undefined);
  }

  async #snapshot(model: LocalModel, delta: PendingDelta): Promise<void> {
    await this.#taking;
    const from = this.#baseline;
    const to = await model.readState();
    const fromFile = this.#baselineFile;
    const pending = this.#state.pending.map(({ sequence }) => sequence);
    const fields = this.#options.data?.headerFields(delta.sequence, pending);
    this.#baseline = to;
    this.#baselineFile = undefined;
    this.#taking = this.#take(delta, from, to, fields).catch(async (error: unknown) => {
      // As if it had not been asked for: its progress is still in the weights and counts from the old baseline.
      this.#baseline = from;
      this.#baselineFile = fromFile;
      this.#options.emit("node_state_failed", { error: `a delta could not be written: ${errorText(error)}` });
      this.#isUnwritten = true;
      this.#dispatch({ type: "take_failed", sequence: delta.sequence });
    });
  }

  async #take(
    delta: PendingDelta,
    from: ModelState,
    to: ModelState,
    fields: Readonly<Record<string, string>> = {},
  ): Promise<void> {
    const { outbox, nodeId, fingerprint } = this.#options;
    const { sequence, localStep, baseOuterStep, steps, tokens } = delta;
    const summary = new DeltaSummary();
    const streams = computePseudoGradient(from, to, { summary });
    const extra = {
      ...fields,
      fingerprint: fingerprintText(fingerprint),
      previous_sha256: this.#previousSha256,
      sequence: String(sequence),
      steps: String(steps),
      tokens: String(tokens),
    };
    const { sha256 } = await outbox.outgoing.write(outgoingName(delta), (sink) =>
      writeDelta(sink, streams, { nodeId, localStep, baseOuterStep, extra }),
    );
    this.#isUnwritten = false;
    const { isZero, isFinite: isWhole } = summary.description;
    if (!isZero) {
      this.#lastTaken = sequence;
      this.#progress = takeProgress(this.#progress, sequence);
    }
    if (!isZero && isWhole) this.#previousSha256 = sha256;
    this.#dispatch({ type: "taken", sequence, sha256, isZero, isFinite: isWhole });
  }

  async #install(model: LocalModel, version: SeenVersion, keep: readonly PendingDelta[]): Promise<void> {
    await this.#taking;
    const { outbox, emit, bufferPolicies } = this.#options;
    const opened: TensorReader[] = [];
    let target: ModelState;
    try {
      const global = await openRoomFile(outbox.global, globalFileName(version));
      opened.push(global);
      for (const delta of keep) {
        const { reader } = await loadDelta(await outbox.outgoing.open(outgoingName(delta)));
        opened.push(reader);
      }
      target = await subtractDeltas(global, opened.slice(1), this.#baseline, bufferPolicies);
    } finally {
      for (const reader of opened) await reader.close();
    }
    const weights = await model.readState();
    // The first version brings a node's own buffers along.
    if (this.#hasInstalled) keepLocalBuffers(target, weights, bufferPolicies);
    this.#hasInstalled = true;
    const brokenTensors = carryProgress(target, this.#baseline, weights, bufferPolicies);
    if (brokenTensors > 0)
      emit("node_state_failed", {
        error: `local progress in ${brokenTensors} tensors is not finite and was given up for version ${version.outerStep}`,
      });
    await model.writeState(weights);
    this.#baseline = target;
    this.#baselineFile = undefined;
    this.#options.data?.versionInstalled(
      version,
      keep.map(({ sequence }) => sequence),
    );
  }

  async #saveBaseline(): Promise<string | undefined> {
    if (this.#baselineFile !== undefined) return this.#baselineFile;
    const { outbox, emit, keepBaselines = 4 } = this.#options;
    const { baselines } = outbox;
    const files = await baselines.list();
    const number = Number(files.at(-1)?.slice(0, 10) ?? 0) + 1;
    const name = `${String(number).padStart(10, "0")}.safetensors`;
    try {
      await saveState(baselines, name, this.#baseline);
      for (const old of files.slice(0, Math.max(0, files.length + 1 - keepBaselines)))
        await baselines.remove(old);
      this.#baselineFile = name;
      return name;
    } catch (error) {
      emit("node_state_failed", { error: `the baseline could not be saved: ${errorText(error)}` });
      return undefined;
    }
  }

  async #send(delta: PendingDelta): Promise<void> {
    const { transport, outbox, clock, backoff, random } = this.#options;
    const { signal } = this.#ending;
    await this.#keeper?.saved();
    const { sequence, sha256 } = delta;
    const result = await attempt(async () => {
      const content = await outbox.outgoing.content(outgoingName(delta));
      const mayBeThere = this.#tried.has(sequence);
      this.#tried.add(sequence);
      await sendDelta(transport, delta, {
        content: sha256 === undefined ? content : { ...content, sha256 },
        signal,
        mayBeThere,
        twins: this.#twins,
        onTwin: (path) => this.#options.emit("node_id_shared", { node_id: this.#options.nodeId, path }),
        pause: (lost) => clock.sleep(raceMs(lost, backoff, random), signal),
      });
    }, this.#attemptOptions(signal));
    if (result.kind === "aborted") return;
    if (result.kind === "done") {
      this.#online();
      this.#tried.delete(sequence);
      this.#dispatch({ type: "sent", sequence });
      return;
    }
    const { error, isPermanent } = result;
    this.#dispatch({ type: "send_failed", sequence, error: errorText(error), isPermanent });
    this.#retryLater(isPermanent);
  }

  async #fetch(version: SeenVersion, signal: AbortSignal): Promise<void> {
    const { transport, outbox, newHasher } = this.#options;
    const { outerStep } = version;
    const like = this.#baseline;
    const result = await attempt(
      () => fetchVersion(transport, version, { room: outbox.global, like, newHasher, signal }),
      this.#attemptOptions(signal),
    );
    if (result.kind === "aborted") return;
    if (result.kind === "done") {
      this.#online();
      this.#dispatch({ type: "fetched", outerStep });
      return;
    }
    const { error, isPermanent } = result;
    this.#otherModel ??= asOtherModel(error, outerStep);
    this.#dispatch({ type: "fetch_failed", outerStep, error: errorText(error), isPermanent });
    if (!isPermanent) this.#retryLater(false);
  }

  /** Local steps ask again by themselves; without any (at the start, at the end) somebody has to. */
  #retryLater(isPermanent: boolean): void {
    const { clock, backoff } = this.#options;
    const { signal } = this.#ending;
    const waitMs = isPermanent ? Math.max(BLOCKED_RETRY_MS, backoff.maxMs) : backoff.maxMs;
    if (this.#isRetrying) return;
    this.#isRetrying = true;
    void clock.sleep(waitMs, signal).then(() => {
      this.#isRetrying = false;
      this.#dispatch({ type: "retry" });
    });
  }

  /** `onFirst` is called after the first look that gave an answer; with the error if the answer is no. */
  async #poll(onFirst: (refusal?: unknown) => void): Promise<void> {
    const { transport, clock, pollIntervalMs, backoff, random } = this.#options;
    const { signal } = this.#ending;
    let known: string | undefined;
    let failures = 0;
    while (!signal.aborted) {
      let waitMs = pollIntervalMs;
      try {
        const revision = await transport.head({ known, signal });
        if (revision !== known) await this.#look(revision);
        known = revision;
        failures = 0;
        this.#online();
        onFirst();
      } catch (error) {
        if (signal.aborted) break;
        failures += 1;
        waitMs = backoffMs(failures, backoff, random, retryAfterMs(error));
        if (isPermanentError(error)) {
          waitMs = Math.max(waitMs, pollIntervalMs);
          onFirst(error);
          this.#report("node_blocked", error);
        } else this.#report("node_waiting", error, waitMs);
      }
      await clock.sleep(waitMs, signal);
    }
  }

  async #look(revision: string): Promise<void> {
    const { transport, fingerprint, newHasher, emit } = this.#options;
    let version: SeenVersion | undefined;
    try {
      version = await readVersion(transport, revision, {
        fingerprint,
        newHasher,
        signal: this.#ending.signal,
        knownOuterStep: this.#state.installed,
      });
    } catch (error) {
      if (error instanceof TransportError || this.#ending.signal.aborted) throw error;
      this.#otherModel ??= asOtherModel(error);
      const text = errorText(error);
      if (text !== this.#lastRefusal) emit("version_refused", { error: text });
      this.#lastRefusal = text;
      return;
    }
    this.#lastRefusal = undefined;
    this.#dispatch(version === undefined ? { type: "absent" } : { type: "seen", version });
  }

  #attemptOptions(signal: AbortSignal): AttemptOptions {
    const { attempts, clock, backoff, random } = this.#options;
    const onFailure = (error: unknown, waitMs: number) => this.#report("node_waiting", error, waitMs);
    return { attempts, clock, backoff, random, signal, onFailure };
  }

  /** Trouble with the repository is told when it begins and when it becomes another one. */
  #report(event: "node_waiting" | "node_blocked", error: unknown, waitMs?: number): void {
    const code = error instanceof TransportError ? error.code : "internal";
    if (this.#trouble === code) return;
    this.#trouble = code;
    const wait = waitMs === undefined ? {} : { wait_s: waitMs / 1000 };
    this.#options.emit(event, { error: errorText(error), code, ...wait });
  }

  #online(): void {
    if (this.#trouble !== undefined)
      this.#options.emit("node_online", { repository: this.#options.transport.title });
    this.#trouble = undefined;
  }

  /** Resolves once `condition` holds. */
  #until(condition: (state: WorkerState) => boolean): Promise<void> {
    return new Promise((resolve) => {
      const look = () => {
        if (!condition(this.#state)) return;
        this.#waiters.delete(look);
        resolve();
      };
      this.#waiters.add(look);
      look();
    });
  }

  #record(): NodeRecord {
    return {
      salt: this.#salt,
      lastTaken: this.#lastTaken,
      progress: this.#progress,
      worker: this.#state,
    };
  }

  #settings(): WorkerSettings {
    const { nodeId, innerSteps, maxQueued, maxPending, maxVersionJump } = this.#options;
    return {
      nodeId,
      innerSteps,
      maxQueued,
      salt: this.#salt,
      ...(maxPending === undefined ? {} : { maxPending }),
      ...(maxVersionJump === undefined ? {} : { maxVersionJump }),
    };
  }

  /** Ends the lanes and waits for them; one that hangs all the same can change nothing any more. */
  async #end(): Promise<void> {
    this.#ending.abort();
    const lanes = Promise.all([this.#polling, this.#sending, this.#fetching]);
    await within(lanes, LAST_ANSWER_MS, this.#options.clock);
    if (this.#keeper) await within(this.#keeper.saved(), LAST_SAVE_MS, this.#options.clock);
  }
}

function randomText(random: () => number): string {
  return Array.from({ length: 16 }, () => Math.floor(random() * 16).toString(16)).join("");
}
