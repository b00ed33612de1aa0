// The aggregator: runs the outer loop's reducer against a repository. Polls, inspects what the reducer asks for,
// publishes what it plans, and stops when another master has taken over.
// Long because its steps share one reducer state.

import type { ModelFingerprint } from "../protocol/fingerprint.js";
import { createMaster, isDrained, stepMaster } from "../protocol/master.js";
import type {
  FatesPlan,
  Inspection,
  ListedDelta,
  MasterEffect,
  MasterEvent,
  MasterState,
  MergeSettings,
  RoundPlan,
} from "../protocol/master-contract.js";
import type { Transport } from "../transports/contract.js";
import { TransportError } from "../transports/errors.js";
import type { BufferPolicies } from "../wire/buffer-merge.js";
import { WireError } from "../wire/errors.js";
import type { JsonValue } from "../wire/python-json.js";
import { AggregatorError } from "./aggregator-errors.js";
import { publishFates } from "./aggregator-fates.js";
import { type DeltaModel, deltaModel, inspectDelta } from "./aggregator-inspect.js";
import { openRun } from "./aggregator-open.js";
import { DrainPatience, isTemporary, patienceMs, waitingPayload } from "./aggregator-patience.js";
import { BehindError, publishRound } from "./aggregator-publish.js";
import { isSameOwner } from "./aggregator-record.js";
import { deltaCacheName, deltaCachePrefix, listDeltas, readRunHead } from "./aggregator-repository.js";
import {
  type Bootstrap,
  fencedError,
  forgedError,
  type LiveRun,
  loadRun,
  scratchName,
} from "./aggregator-run.js";
import { settingsChange } from "./aggregator-settings.js";
import type { Surroundings } from "./aggregator-surroundings.js";
import { Ahead } from "./ahead.js";

export interface AggregatorOptions {
  readonly transport: Transport;
  readonly surroundings: Surroundings;
  readonly settings: MergeSettings;
  /** Stable over restarts, so that a restarted aggregator is the same master. */
  readonly masterId: string;
  readonly pollIntervalMs: number;
  /** From 0 to below 1. Default: Math.random. */
  readonly random?: (() => number) | undefined;
  readonly takeOver?: boolean;
  /** What to start a run from where there is none. */
  readonly bootstrap?: Bootstrap | undefined;
  /** Of the model that is expected; deltas and the run itself are compared with it. */
  readonly fingerprint?: ModelFingerprint | undefined;
  /** Larger files of weights or momentum than this are not fetched (see `maxFileBytes`). Default: any size. */
  readonly maxStateBytes?: number | undefined;
  /** Of the model's buffers, where it has some. */
  readonly bufferPolicies?: BufferPolicies | undefined;
  /** More keys of the version record (see `leaseFields`), from the plan and those of the version before. */
  readonly recordFields?: (
    plan: RoundPlan,
    earlier: Readonly<Record<string, JsonValue>>,
  ) => Readonly<Record<string, JsonValue>>;
  readonly onEvent?: (event: string, payload: Readonly<Record<string, unknown>>) => void;
}

/** A last round is given at least so long. */
const SHORTEST_DRAIN_MS = 10_000;

export interface RunLimits {
  /** Ends after so many publications. */
  readonly rounds?: number | undefined;
  readonly signal?: AbortSignal | undefined;
}

export class Aggregator {
  readonly #options: AggregatorOptions;
  #run: LiveRun;
  #master: MasterState;
  #model: DeltaModel;
  /** Revision of the listing that the reducer saw last. */
  #listedRevision: string | undefined;
  #odd = new Set<string>();
  /** Deltas that turned out to be too large to add, by path and content. */
  readonly #refused = new Map<string, Inspection>();
  /** Why the planned version was not published; told to the reducer when the repository answers again. */
  #failure: string | undefined;
  #rounds = 0;

  private constructor(options: AggregatorOptions, run: LiveRun, model: DeltaModel) {
    this.#options = options;
    this.#run = run;
    this.#model = model;
    this.#master = masterOf(options, run);
  }

  /**
   * Becomes the master: of the run in the repository, or of a new one.
   * @throws AggregatorError `fenced` unless `takeOver`, `no_run`, `half_started`, `damaged_repository`, `other_model`;
   *   TransportError, WireError, ProtocolError.
   */
  static async start(options: AggregatorOptions, signal?: AbortSignal): Promise<Aggregator> {
    const run = await openRun({ ...options, signal });
    const model = await deltaModel(run.state, run.fingerprint);
    const change = settingsChange(options.settings, run.head);
    if (change !== undefined) options.onEvent?.("master_settings_changed", change);
    return new Aggregator(options, run, model);
  }

  /** The newest version. */
  get outerStep(): number {
    return this.#run.head.record.outerStep;
  }

  get run(): LiveRun {
    return this.#run;
  }

  /** Polls until the limits end it. */
  async runUntil({ rounds = Number.POSITIVE_INFINITY, signal }: RunLimits = {}): Promise<void> {
    const { clock } = this.#options.surroundings;
    const { pollIntervalMs } = this.#options;
    let failures = 0;
    const target = this.#rounds + rounds;
    while (this.#rounds < target && signal?.aborted !== true) {
      let waitMs = pollIntervalMs;
      try {
        await this.poll(signal, target - this.#rounds);
        failures = 0;
      } catch (error) {
        if (signal?.aborted) return;
        if (!isTemporary(error)) throw error;
        waitMs = patienceMs(error, ++failures, pollIntervalMs, this.#options.random);
        this.#emit("aggregator_waiting", waitingPayload(error, waitMs));
      }
      if (this.#rounds < target) await clock.sleep(waitMs, signal);
    }
  }

  /**
   * Rounds without a quorum until nothing usable is left; call it when the nodes have stopped. Temporary trouble is
   * waited out until `signal` aborts, and no longer than the grace of a round without any progress.
   * @throws AggregatorError `fenced`, `undrained`; TransportError that is not temporary, or was still there at the end.
   */
  async drain(signal?: AbortSignal): Promise<void> {
    const { surroundings, settings, pollIntervalMs, random } = this.#options;
    const { clock } = surroundings;
    const patience = new DrainPatience(Math.max(settings.graceMs, SHORTEST_DRAIN_MS), clock.now());
    let failures = 0;
    let trouble: TransportError | undefined;
    while (signal?.aborted !== true) {
      let waitMs = pollIntervalMs;
      const before = this.#rounds;
      try {
        if (!this.#master.isDraining) await this.#feed({ type: "drain" }, signal);
        await this.poll(signal);
        if (isDrained(this.#master)) return;
        failures = 0;
        trouble = undefined;
        if (this.#rounds > before) patience.renew(clock.now());
        const waiting = patience.waiting(this.#unread(), clock.now(), this.#options.transport.title);
        if (waiting !== undefined) this.#emit("aggregator_waiting", { ...waiting, wait_ms: waitMs });
      } catch (error) {
        if (signal?.aborted) throw trouble ?? error;
        if (!isTemporary(error)) throw error;
        trouble = error;
        patience.check(error, clock.now());
        const longestMs = patience.leftMs(clock.now());
        waitMs = Math.min(patienceMs(error, ++failures, pollIntervalMs, random), longestMs);
        this.#emit("aggregator_waiting", waitingPayload(error, waitMs));
      }
      await clock.sleep(waitMs, signal);
    }
    if (trouble !== undefined) throw trouble;
  }

  /** Paths of deltas that could not be looked into yet. */
  #unread(): string[] {
    const isOpen = (inspection: unknown) => inspection === "waiting" || inspection === "failed";
    return [...this.#master.known].filter(([, { inspection }]) => isOpen(inspection)).map(([path]) => path);
  }

  /**
   * One look at the repository and all that follows from it.
   * @throws AggregatorError `fenced`; TransportError: transient ones mean that the next poll may do better.
   */
  async poll(signal?: AbortSignal, maxRounds = Number.POSITIVE_INFINITY): Promise<void> {
    const { transport, surroundings } = this.#options;
    const known = this.#listedRevision;
    const revision = await transport.head({ signal, known });
    if (revision !== known || this.#failure !== undefined) await this.#checkHead(revision, signal);
    if (this.#failure !== undefined) {
      const error = this.#failure;
      this.#failure = undefined;
      await this.#feed({ type: "publish_failed", error }, signal, maxRounds);
    }
    const nowMs = surroundings.clock.now();
    // What could not be read, or had to wait for its turn, is asked for by the next listing only.
    const isLookedInto =
      this.#master.deferred.length === 0 &&
      [...this.#master.known.values()].every(({ inspection }) => inspection !== "failed");
    if (revision === known && isLookedInto && this.#listedRevision === known) {
      await this.#feed({ type: "tick", nowMs }, signal, maxRounds);
      return;
    }
    const deltas = await listDeltas(transport, revision, signal, (path, reason) =>
      this.#reportOdd(path, reason),
    );
    this.#listedRevision = revision;
    await this.#feed({ type: "listed", nowMs, deltas }, signal, maxRounds);
  }

  /** Still the master, and of the version that this process knows? Otherwise stop, or read it again. */
  async #checkHead(revision: string, signal: AbortSignal | undefined): Promise<void> {
    const { transport, surroundings, maxStateBytes } = this.#options;
    const { owner, head } = this.#run;
    const found = await readRunHead(transport, revision, signal);
    if (found === undefined || !isSameOwner(found.facts.owner, owner)) {
      throw fencedError(transport, found, owner);
    }
    const isKnown =
      found.record.outerStep === head.record.outerStep && found.facts.modelSha256 === head.facts.modelSha256;
    if (isKnown) {
      this.#run = { ...this.#run, head: { ...head, revision } };
      return;
    }
    // A commit of ours whose answer was lost. It can only be the version that follows.
    if (found.record.outerStep !== head.record.outerStep + 1)
      throw forgedError(transport, found, { ...this.#run.head, owner });
    this.#run = {
      ...this.#run,
      head: found,
      ...(await loadRun(transport, surroundings, found, { signal, maxStateBytes })),
    };
    this.#failure = undefined;
    const { isDraining } = this.#master;
    this.#master = { ...masterOf(this.#options, this.#run), isDraining };
    this.#listedRevision = undefined;
    this.#emit("master_restored", { outer_step: found.record.outerStep, revision });
  }

  /** Gives an event to the reducer and does what it asks for, in order. */
  async #feed(event: MasterEvent, signal?: AbortSignal, maxRounds = Number.POSITIVE_INFINITY): Promise<void> {
    const queue: MasterEffect[] = [];
    const target = this.#rounds + maxRounds;
    const take = (next: MasterEvent) => {
      const { state, effects } = stepMaster(this.#master, next);
      this.#master = state;
      queue.push(...effects);
    };
    take(event);
    const inspections = new Ahead((delta: ListedDelta, signal) => this.#inspect(delta, signal), signal);
    let effect = queue.shift();
    try {
      for (; effect !== undefined; effect = queue.shift()) {
        if (effect.type === "emit") this.#emit(effect.event, effect.payload);
        else if (effect.type === "inspect") {
          take(await inspections.take(effect.delta, besides(effect.delta, queue[0])));
        } else if (effect.type === "publish_fates") take(await this.#publishFates(effect.plan, signal));
        else if (this.#rounds >= target) this.#failure = "the number of rounds asked for is reached";
        else for (const next of await this.#publish(effect.plan, signal)) take(next);
      }
    } catch (error) {
      await inspections.end();
      // What was not looked at is asked for again by the next listing, and a plan that nobody tried is given up: what
      // follows from the one may be the other.
      if (effect?.type === "inspect") queue.unshift(effect);
      for (let left = queue.shift(); left !== undefined; left = queue.shift()) {
        if (left.type === "emit") this.#emit(left.event, left.payload);
        if (left.type === "publish") this.#failure ??= "interrupted";
        if (left.type === "publish_fates") take({ type: "fates_failed", error: "interrupted" });
        if (left.type !== "inspect") continue;
        const { path, contentId } = left.delta;
        take({ type: "inspection_failed", path, contentId, error: "interrupted" });
      }
      throw error;
    }
  }

  async #inspect(delta: ListedDelta, signal: AbortSignal | undefined): Promise<MasterEvent> {
    const { transport, surroundings } = this.#options;
    const { path, contentId } = delta;
    const refused = this.#refused.get(keyOf(delta));
    if (refused !== undefined) return { type: "inspected", path, contentId, inspection: refused };
    try {
      const revision = this.#listedRevision ?? this.#run.head.revision;
      const request = { revision, delta };
      const inspection = await inspectDelta(transport, surroundings, this.#model, request, signal);
      return { type: "inspected", path, contentId, inspection };
    } catch (error) {
      if (!(error instanceof TransportError) || signal?.aborted === true) throw error;
      return { type: "inspection_failed", path, contentId, error: error.message };
    }
  }

  /** The events that follow. Transient failures keep the plan for the next poll. */
  async #publish(plan: RoundPlan, signal: AbortSignal | undefined): Promise<MasterEvent[]> {
    const { transport, surroundings, settings, recordFields, random } = this.#options;
    const context = {
      transport,
      surroundings,
      recordFields,
      random,
      keepVersions: settings.keepVersions,
      listed: this.#master.listed,
      signal,
      onTrouble: (problem: string, message: string) =>
        this.#emit("publish_trouble", { outer_step: plan.outerStep, problem, error: message }),
    };
    try {
      this.#run = await publishRound(context, this.#run, plan);
    } catch (error) {
      if (error instanceof WireError && error.code === "wire.non_finite")
        return this.#refuseLargest(plan, error);
      if (error instanceof AggregatorError && error.problem === "fenced") throw error;
      // Also after an interruption: whether the version is there is seen at the next look, even if the head did not move.
      this.#failure = error instanceof Error ? error.message : String(error);
      this.#listedRevision = undefined;
      if (error instanceof BehindError) return [];
      throw error;
    }
    this.#rounds++;
    const { outerStep } = plan;
    const { revision } = this.#run.head;
    this.#emit("version_published", {
      outer_step: outerStep,
      revision,
      deltas: plan.deltas.length,
      outer_lr: plan.lr,
      outer_momentum: plan.mu,
    });
    await this.#cleanScratch(plan);
    return [{ type: "published", outerStep }];
  }

  /** Why deltas were refused, for everybody to read, although no version follows. */
  async #publishFates(plan: FatesPlan, signal: AbortSignal | undefined): Promise<MasterEvent> {
    const { transport, surroundings, random } = this.#options;
    try {
      this.#run = await publishFates({ transport, surroundings, random, signal }, this.#run, plan);
    } catch (error) {
      const isOver =
        !(error instanceof TransportError || error instanceof BehindError) || signal?.aborted === true;
      if (isOver) throw error;
      return { type: "fates_failed", error: error.message };
    }
    this.#emit("fates_published", { outer_step: plan.outerStep, deltas: plan.decided.length });
    return { type: "fates_published" };
  }

  /** Finite deltas whose sum is not: the one that weighs most goes, with a reason, and the round is planned again. */
  #refuseLargest(plan: RoundPlan, error: WireError): MasterEvent[] {
    const sizeOf = ({ path, weight }: RoundPlan["deltas"][number]) => {
      const inspection = this.#master.known.get(path)?.inspection;
      const norm = typeof inspection === "object" && inspection.ok ? inspection.norm : 0;
      return Math.abs(weight) * norm;
    };
    const culprit = plan.deltas.reduce((a, b) => (sizeOf(b) > sizeOf(a) ? b : a));
    const reason = `overflow: with it, the outer step is not finite (${error.message})`;
    this.#refused.set(keyOf(culprit), { ok: false, reason, sha256: culprit.sha256 });
    const { known, deferred } = this.#master;
    const all = [...[...known.values()].map(({ listed }) => listed), ...deferred];
    const decided = this.#listedButDecided();
    const nowMs = this.#options.surroundings.clock.now();
    // Gone and back again: the reducer then asks for another inspection, which refuses.
    return [
      { type: "listed", nowMs, deltas: [...decided, ...all.filter(({ path }) => path !== culprit.path)] },
      { type: "listed", nowMs, deltas: [...decided, ...all] },
      { type: "publish_failed", error: error.message },
    ];
  }

  /** Listed files that a version has decided on: the reducer needs them for deletions, nothing else of them counts. */
  #listedButDecided(): ListedDelta[] {
    const { listed, known, deferred, ledger } = this.#master;
    const nodes = new Map(ledger.entries.map(({ path, nodeId }) => [path, nodeId]));
    const waiting = new Set(deferred.map(({ path }) => path));
    return [...listed]
      .filter(([path]) => !known.has(path) && !waiting.has(path))
      .map(([path, contentId]) => ({
        path,
        contentId,
        nodeId: nodes.get(path) ?? "",
        number: 0,
        sizeBytes: 0,
      }));
  }

  /** Keeps the newest version and the deltas that are still open. */
  async #cleanScratch(plan: RoundPlan): Promise<void> {
    const { transport, surroundings } = this.#options;
    const decided = new Set(plan.decided.map(keyOf));
    const open = [...this.#master.known.values()].map(({ listed }) => listed);
    const kept = new Set(
      open
        .filter((delta) => !decided.has(keyOf(delta)))
        .map((delta) => deltaCacheName(transport, delta, surroundings.hasher)),
    );
    for (const name of [this.#run.state.name, this.#run.momentum?.name])
      if (name !== undefined) kept.add(name);
    for (const prefix of [deltaCachePrefix(transport), scratchName(transport, "global/")]) {
      for (const name of await surroundings.scratch.list(prefix)) {
        if (!kept.has(name)) await surroundings.scratch.remove(name);
      }
    }
  }

  #reportOdd(path: string, reason: string): void {
    if (this.#odd.has(path)) return;
    this.#odd.add(path);
    this.#emit("delta_path_skipped", { path, reason });
  }

  #emit(event: string, payload: Readonly<Record<string, unknown>>): void {
    this.#options.onEvent?.(event, payload);
  }
}

function masterOf({ settings }: AggregatorOptions, { head, ledger, history }: LiveRun): MasterState {
  return createMaster(settings, { outerStep: head.record.outerStep, ledger, norms: history.norms });
}

const keyOf = ({ path, contentId }: Pick<ListedDelta, "path" | "contentId">) => `${path}\n${contentId}`;

/** A delta to look into at the same time; one with the same content has the same file in the scratch room. */
function besides(delta: ListedDelta, next: MasterEffect | undefined): ListedDelta | undefined {
  return next?.type === "inspect" && next.delta.contentId !== delta.contentId ? next.delta : undefined;
}
