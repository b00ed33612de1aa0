// Workers and a master in one memory, driven by a list of numbers that choose what happens next. Weights are vectors
// with one place per local step: a 1 says that the step is in them once. The reducers are the product's; only what
// carries out their effects is made up, with lost answers, failed publications and crashes at any point.

import { parseDeltaPath } from "../../../src/distributed/index.js";
import {
  compactLedger,
  createMaster,
  createWorker,
  EMPTY_LEDGER,
  isDrained,
  type Ledger,
  type MasterEvent,
  type MasterState,
  type MergeSettings,
  type PendingDelta,
  type RoundPlan,
  stepMaster,
  stepWorker,
  type WorkerEffect,
  type WorkerEvent,
  type WorkerState,
} from "../../../src/distributed/protocol/index.js";
import { shaOf } from "./transcript.js";

export type Vector = ReadonlyMap<number, number>;

/** a + scale x b, without zeros. */
export function add(a: Vector, b: Vector, scale: number): Vector {
  const sum = new Map(a);
  for (const [place, value] of b) {
    const next = (sum.get(place) ?? 0) + scale * value;
    if (next === 0) sum.delete(place);
    else sum.set(place, next);
  }
  return sum;
}

export interface FleetOptions {
  readonly workers: number;
  readonly innerSteps: number;
  readonly maxQueued: number;
  readonly publishesLedger: boolean;
  readonly stalenessLimit: number;
}

interface Version {
  readonly weights: Vector;
  readonly ledger: Ledger;
  readonly norms: readonly number[];
}

interface StoredFile {
  readonly delta: Vector;
  readonly base: number;
  readonly tokens: number;
}

export class SimulatedFleet {
  readonly versions: Version[] = [{ weights: new Map(), ledger: EMPTY_LEDGER, norms: [] }];
  readonly files = new Map<string, StoredFile>();
  readonly workers: SimulatedWorker[];
  private readonly settings: MergeSettings;
  private master: MasterState;
  private masterWork: { readonly kind: "inspect" | "publish" | "fates"; run(luck: number): void }[] = [];
  /** The repository may name the same content in another way. */
  private naming = 0;
  private nowMs = 0;
  private nextPlace = 0;

  constructor(readonly options: FleetOptions) {
    this.settings = {
      outerLr: 1,
      outerMomentum: 0,
      momentumWarmupRounds: 0,
      merge: "tokens",
      stalenessLimit: options.stalenessLimit,
      stalenessDiscount: 1,
      clipFactor: null,
      quorum: 2,
      graceMs: 3,
      keepVersions: 1,
    };
    this.master = this.startMaster();
    this.workers = Array.from({ length: options.workers }, (_, i) => new SimulatedWorker(this, `n${i}`));
  }

  newPlace(): number {
    return this.nextPlace++;
  }

  get stepCount(): number {
    return this.nextPlace;
  }

  /** One thing happens; which, the numbers say. The worker that it may have happened to. */
  act(choice: number, detail: number): SimulatedWorker {
    const worker = this.workers[detail % this.workers.length]!;
    const actions = [
      () => worker.step(),
      () => worker.step(),
      () => worker.step(),
      () => worker.work(detail >> 4),
      () => worker.work(detail >> 4),
      () => worker.work(detail >> 4),
      () => worker.poll(),
      () => worker.poll((detail >> 4) % 2),
      () => this.list(),
      () => this.workMaster(detail >> 4),
      () => this.runMaster(3),
      () => this.runMaster(3),
      () => (detail % 7 === 0 ? this.failPublication() : this.workMaster(detail >> 4)),
      () => (detail % 11 === 0 ? this.rename() : this.list()),
      () => worker.changeLine(detail % 3 === 0),
      () => (detail % 5 === 0 ? this.crashMaster() : this.list()),
      () => (detail % 3 === 0 ? worker.crash() : worker.step()),
    ];
    actions[choice % actions.length]!();
    return worker;
  }

  /** Everything comes to rest: all is sent, counted and installed. */
  settle(): void {
    for (const worker of this.workers) worker.finish();
    this.runMaster();
    this.sendMaster({ type: "drain" });
    for (let i = 0; i < 50 && !isDrained(this.master); i++) this.runMaster();
    if (!isDrained(this.master)) throw new Error("the master does not come to an end");
    for (const worker of this.workers) worker.catchUp();
  }

  publishedLedger(outerStep: number): Ledger {
    return this.versions[outerStep]!.ledger;
  }

  private startMaster(): MasterState {
    const outerStep = this.versions.length - 1;
    const { ledger, norms } = this.versions[outerStep]!;
    return createMaster(this.settings, { outerStep, ledger, norms });
  }

  private runMaster(jobs = Number.POSITIVE_INFINITY): void {
    this.list();
    for (let i = 0; i < jobs && this.masterWork.length > 0; i++) this.workMaster();
  }

  private workMaster(luck = 0): void {
    this.masterWork.shift()?.run(luck);
  }

  private rename(): void {
    this.naming += 1;
    this.list();
  }

  private contentIdOf(path: string): string {
    return `${this.naming} ${shaOf(path)}`;
  }

  private list(): void {
    this.nowMs += 1;
    const deltas = [...this.files.keys()].map((path) => {
      const parsed = parseDeltaPath(path);
      if (parsed.kind !== "delta") throw new Error(`${path} is no path of a delta`);
      return {
        path,
        nodeId: parsed.nodeId,
        number: parsed.localStep,
        sizeBytes: 1,
        contentId: this.contentIdOf(path),
      };
    });
    this.sendMaster({ type: "listed", nowMs: this.nowMs, deltas });
  }

  private sendMaster(event: MasterEvent): void {
    const { state, effects } = stepMaster(this.master, event);
    this.master = state;
    for (const effect of effects) {
      if (effect.type === "inspect") {
        const { path, contentId } = effect.delta;
        const run = (luck: number) => {
          const file = this.files.get(path);
          if (file === undefined || luck % 4 === 3) {
            this.sendMaster({ type: "inspection_failed", path, contentId, error: "no answer" });
            return;
          }
          const { base, tokens } = file;
          const facts = { baseOuterStep: base, localStep: undefined, tokens, steps: undefined };
          const inspection = { ok: true, sha256: shaOf(path), ...facts, norm: 1, isZero: false } as const;
          this.sendMaster({ type: "inspected", path, contentId, inspection });
        };
        this.masterWork.push({ kind: "inspect", run });
      } else if (effect.type === "publish") {
        const { plan } = effect;
        const run = () => {
          this.commit(plan);
          this.sendMaster({ type: "published", outerStep: plan.outerStep });
        };
        this.masterWork.push({ kind: "publish", run });
      } else if (effect.type === "publish_fates") {
        const { outerStep, ledger } = effect.plan;
        const run = (luck: number) => {
          if (luck % 4 === 3) {
            this.sendMaster({ type: "fates_failed", error: "conflict" });
            return;
          }
          this.versions[outerStep] = { ...this.versions[outerStep]!, ledger };
          this.sendMaster({ type: "fates_published" });
        };
        this.masterWork.push({ kind: "fates", run });
      }
    }
  }

  private failPublication(): void {
    if (this.master.publishing === undefined) return;
    this.masterWork = this.masterWork.filter(({ kind }) => kind !== "publish");
    this.sendMaster({ type: "publish_failed", error: "conflict" });
  }

  /** Before the commit, or after it and before anybody hears of it. */
  private crashMaster(): void {
    const plan = this.master.publishing;
    if (plan !== undefined && this.nowMs % 2 === 0) this.commit(plan);
    this.masterWork = [];
    this.master = this.startMaster();
  }

  /** Every delta counts in full: the sum of all is what is looked at, weights are tested elsewhere. */
  private commit(plan: RoundPlan): void {
    if (plan.outerStep !== this.versions.length)
      throw new Error(`version ${plan.outerStep} is not the next one`);
    let { weights } = this.versions.at(-1)!;
    for (const { path } of plan.deltas) weights = add(weights, this.files.get(path)!.delta, -1);
    for (const path of plan.deletions) this.files.delete(path);
    // Shorter than the product's, so that nodes meet ledgers which have forgotten.
    const listed = new Map([...this.files.keys()].map((path) => [path, this.contentIdOf(path)]));
    const ledger = compactLedger(plan.ledger, { upTo: plan.outerStep - 2, listed });
    this.versions.push({ weights, ledger, norms: plan.norms });
  }
}

export class SimulatedWorker {
  weights: Vector = new Map();
  /** Own steps that the node did. */
  readonly places: number[] = [];
  state: WorkerState;
  private baseline: Vector = new Map();
  private outbox = new Map<number, { delta: Vector; baselineBefore: Vector }>();
  private jobs: ((luck: number) => void)[] = [];
  /** What it sends arrives, and it hears nothing. */
  private isDeaf = false;

  constructor(
    private readonly fleet: SimulatedFleet,
    readonly nodeId: string,
  ) {
    const { innerSteps, maxQueued } = fleet.options;
    this.state = createWorker({ nodeId, innerSteps, maxQueued });
  }

  get installed(): Vector {
    return this.state.installed === undefined
      ? new Map()
      : this.fleet.versions[this.state.installed]!.weights;
  }

  /** Sum of the node's deltas that no version is known to have decided on. */
  get ownPending(): Vector {
    return this.sumOf(this.state.pending);
  }

  /** What the install rule says that the weights are. */
  get expectedWeights(): Vector {
    const progress = add(this.baseline, this.weights, -1);
    return add(add(this.installed, this.ownPending, -1), progress, -1);
  }

  step(): void {
    const place = this.fleet.newPlace();
    this.places.push(place);
    this.weights = add(this.weights, new Map([[place, 1]]), 1);
    this.send({ type: "step", step: this.state.localStep + 1, tokens: 1 });
  }

  /** The next thing under way comes to an end; `luck` says how. */
  work(luck: number): void {
    this.jobs.shift()?.(luck);
  }

  /** Looks at the repository, of which it may see an older state. */
  poll(lag = 0): void {
    if (this.isDeaf) return;
    const outerStep = Math.max(0, this.fleet.versions.length - 1 - lag);
    const ledger = this.fleet.options.publishesLedger ? this.fleet.publishedLedger(outerStep) : undefined;
    const version = {
      outerStep,
      revision: "r",
      modelFile: "global/m.safetensors",
      modelSha256: undefined,
      ledger,
    };
    this.send({ type: "seen", version });
  }

  /** For some time. */
  changeLine(isDeaf: boolean): void {
    this.isDeaf = isDeaf;
  }

  /** State, weights and outbox survive, and the baseline as far as its delta is written. */
  crash(): void {
    const lost = this.state.pending.find(({ stage }) => stage === "taking");
    if (lost !== undefined) this.baseline = this.outbox.get(lost.sequence)!.baselineBefore;
    this.jobs = [];
    this.state = createWorker(this.state.settings, JSON.parse(JSON.stringify(this.state)));
    this.send({ type: "idle" });
  }

  finish(): void {
    // Whoever never saw a version sees one now: without it nothing may be sent.
    this.isDeaf = false;
    this.crash();
    this.poll();
    this.runJobs();
    this.send({ type: "idle" });
    this.runJobs();
    this.send({ type: "stop" });
    this.runJobs();
  }

  catchUp(): void {
    this.crash();
    this.poll();
    this.runJobs();
    this.send({ type: "idle" });
  }

  private sumOf(deltas: readonly PendingDelta[]): Vector {
    return deltas.reduce<Vector>(
      (sum, { sequence }) => add(sum, this.outbox.get(sequence)!.delta, 1),
      new Map(),
    );
  }

  private runJobs(): void {
    while (this.jobs.length > 0) this.work(0);
  }

  private send(event: WorkerEvent): void {
    const { state, effects } = stepWorker(this.state, event);
    this.state = state;
    for (const effect of effects) this.run(effect);
  }

  private run(effect: WorkerEffect): void {
    switch (effect.type) {
      case "snapshot": {
        const { sequence } = effect.delta;
        const delta = add(this.baseline, this.weights, -1);
        this.outbox.set(sequence, { delta, baselineBefore: this.baseline });
        this.baseline = this.weights;
        const sha256 = shaOf(effect.delta.path);
        this.jobs.push(() => this.send({ type: "taken", sequence, sha256, isZero: false, isFinite: true }));
        return;
      }
      case "send":
        this.jobs.push((luck) => this.upload(effect.delta, luck));
        return;
      case "fetch": {
        const { outerStep } = effect.version;
        this.jobs.push((luck) =>
          luck % 4 === 3 || this.isDeaf
            ? this.send({ type: "fetch_failed", outerStep, error: "no answer", isPermanent: false })
            : this.send({ type: "fetched", outerStep }),
        );
        return;
      }
      case "install": {
        const progress = add(this.baseline, this.weights, -1);
        const global = this.fleet.versions[effect.version.outerStep]!.weights;
        this.baseline = add(global, this.sumOf(effect.keep), -1);
        this.weights = add(this.baseline, progress, -1);
        return;
      }
      case "forget":
        this.outbox.delete(effect.delta.sequence);
        return;
      case "emit":
        return;
    }
  }

  /** 0: fine. 1: it arrived, the answer did not. 2: nothing arrived. */
  private upload({ sequence, path, baseOuterStep, tokens }: PendingDelta, luck: number): void {
    const { delta } = this.outbox.get(sequence) ?? {};
    if (delta === undefined) return;
    if (this.isDeaf || luck % 3 !== 2) this.fleet.files.set(path, { delta, base: baseOuterStep, tokens });
    if (luck % 3 === 0 && !this.isDeaf) this.send({ type: "sent", sequence });
    else this.send({ type: "send_failed", sequence, error: "no answer", isPermanent: false });
  }
}
