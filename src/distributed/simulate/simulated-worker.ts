// A training node in a simulation: the product's WorkerNode around a toy trainer that writes checkpoints, dies and goes
// on. Keeps its own account of which local steps must be in its weights.

import type { NodeRecord } from "../node/outbox.js";
import { WorkerNode } from "../node/worker-driver.js";
import { SimulatedDisk } from "./disk.js";
import { readPlainFile } from "./plain-file.js";
import type { SimulatedProcess } from "./process.js";
import { RandomStream } from "./random.js";
import { DRIFT, STEPS, ToyModel, type ToyWeights } from "./toy-model.js";
import { boot, count, FINGERPRINT, POLL_MS, type World } from "./world.js";

const STOP_MS = 900_000;
const MAX_EMPTY_STEPS = 200;

export interface WorkerSetup {
  readonly nodeId: string;
  readonly innerSteps: number;
  readonly maxQueued: number;
  /** Places of the local steps that it may make. */
  readonly places: readonly number[];
}

export interface StartOptions {
  readonly upTo: number;
  readonly resume: number | undefined;
  readonly isCatchingUp?: boolean;
}

interface Checkpoint {
  readonly weights: ToyWeights;
  readonly step: number;
  readonly node: unknown;
  readonly contains: ReadonlySet<number>;
}

/** One process of the node. */
interface Life {
  readonly process: SimulatedProcess;
  readonly model: ToyModel;
  readonly node: WorkerNode;
  /** Own steps that must be in the weights unless a version has decided about them. */
  readonly contains: Set<number>;
  /** Steps in deltas of earlier lives, which the first version to be installed brings back. */
  readonly toComeBack: Set<number>;
  readonly installedAtStart: number | undefined;
  step: number;
}

export class SimulatedWorker {
  readonly setup: WorkerSetup;
  readonly #world: World;
  readonly #random: RandomStream;
  readonly #disk: SimulatedDisk;
  readonly #stepMs: number;
  readonly #checkpointEvery: number;
  /** Steps in deltas that were safe on disk at some time. */
  readonly #secured = new Set<number>();
  readonly #readDeltas = new Set<string>();
  #checkpoints: Checkpoint[] = [];
  #nextPlace = 0;
  #lives = 0;
  #life: Life | undefined;
  #lastPlace = 0;
  #isStopped = false;
  #hasUnsent = false;

  constructor(world: World, setup: WorkerSetup) {
    this.#world = world;
    this.setup = setup;
    this.#random = new RandomStream(world.seed, `worker ${setup.nodeId}`);
    this.#stepMs = this.#random.between(2500, 8000);
    this.#checkpointEvery = this.#random.whole(2, 7);
    this.#disk = new SimulatedDisk({
      newHasher: world.newHasher,
      random: new RandomStream(world.seed, `disk ${setup.nodeId}`),
      onSaved: (record) => this.#secure(record),
    });
  }

  /** Local steps of all its lives. */
  get stepsMade(): number {
    return this.#nextPlace;
  }

  get isAlive(): boolean {
    return this.#life !== undefined;
  }

  /** The last process ended by itself. */
  get isStopped(): boolean {
    return this.#isStopped;
  }

  /** The disk may be slower than the process is willing to wait at its end. */
  get isQuiet(): boolean {
    return this.#isStopped && this.#disk.isQuiet;
  }

  /** It left deltas for the next process to send, as it does without an answer of the repository. */
  get hasUnsent(): boolean {
    return this.#isStopped && this.#hasUnsent;
  }

  /**
   * Trains until it has made so many local steps in all its lives, then stops. `resume`: the checkpoint, 0 the newest.
   * While catching up it makes steps that change nothing until it has the newest version.
   */
  start({ upTo, resume, isCatchingUp = false }: StartOptions): void {
    const world = this.#world;
    const { nodeId, innerSteps, maxQueued } = this.setup;
    const life = ++this.#lives;
    const process = boot(world, nodeId, life);
    const saved = resume === undefined ? undefined : this.#checkpoints.at(-1 - resume);
    // Of a life that began elsewhere nothing follows: a checkpoint that it did not come from is not gone back to.
    this.#checkpoints = this.#checkpoints.slice(
      0,
      saved === undefined ? 0 : this.#checkpoints.indexOf(saved) + 1,
    );
    const contains = new Set(saved?.contains);
    const random = new RandomStream(world.seed, `node ${nodeId} ${life}`);
    const node = new WorkerNode({
      nodeId,
      innerSteps,
      maxQueued,
      transport: world.network.connect(process, new RandomStream(world.seed, `network ${nodeId} ${life}`)),
      outbox: this.#disk.outbox(process),
      fingerprint: FINGERPRINT,
      clock: process.clock,
      random: random.next,
      newHasher: world.newHasher,
      pollIntervalMs: POLL_MS,
      backoff: { initialMs: 200, maxMs: 5000 },
      attempts: 3,
      emit: (event, payload) => {
        world.log(nodeId, `${event} ${JSON.stringify(payload)}`);
        count(world, `event ${event}`);
      },
    });
    this.#lastPlace = Math.min(upTo, this.setup.places.length);
    this.#isStopped = false;
    const catchUpWith = () =>
      isCatchingUp ? world.auditor.newest?.publication.outerStep : node.state.installed;
    this.#life = {
      process,
      model: new ToyModel(saved?.weights ?? world.initial),
      node,
      contains,
      toComeBack: new Set([...this.#secured].filter((place) => !contains.has(place))),
      installedAtStart: installedIn(saved),
      step: saved?.step ?? 0,
    };
    this.#live(this.#life, saved?.node, catchUpWith).catch((error: unknown) => {
      world.violate("live", `${nodeId} stopped with ${error instanceof Error ? error.stack : String(error)}`);
    });
  }

  /** No more steps than have been made. */
  finish(): void {
    this.#lastPlace = this.#nextPlace;
  }

  kill(): void {
    if (this.#life === undefined) return;
    this.#world.log(this.setup.nodeId, "dies");
    this.#life.process.kill();
    this.#life = undefined;
  }

  async #live(life: Life, saved: unknown, catchUpWith: () => number | undefined): Promise<void> {
    const { process, model, node } = life;
    await node.start(model, saved);

    this.#check(life);
    for (let i = 0; i < MAX_EMPTY_STEPS && node.state.installed !== catchUpWith(); i++) {
      await process.sleep(this.#stepMs);
      await node.afterStep(model, ++life.step, 100);
      this.#check(life);
    }
    while (this.#nextPlace < this.#lastPlace) {
      await process.sleep(this.#stepMs * this.#random.between(0.5, 1.5));
      if (this.#nextPlace >= this.#lastPlace) break;
      const place = this.setup.places[this.#nextPlace++]!;
      model.train(place, this.#random);
      life.contains.add(place);
      life.step++;
      count(this.#world, "local steps");
      await node.afterStep(model, life.step, 100 + (place % 3) * 10);
      this.#check(life);
      if (life.step % this.#checkpointEvery === 0) await this.#saveCheckpoint(life, await node.checkpoint());
    }
    await node.stop(model, STOP_MS);
    this.#check(life);
    await this.#saveCheckpoint(life, node.summary());
    this.#hasUnsent = node.state.pending.some(({ stage }) => stage !== "sent");
    this.#life = undefined;
    this.#isStopped = true;
  }

  async #saveCheckpoint({ model, step, contains, process }: Life, node: unknown): Promise<void> {
    const checkpoint = { weights: model.copy(), step, node, contains: new Set(contains) };
    await process.sleep(this.#random.between(1, 100));
    this.#checkpoints = [...this.#checkpoints, checkpoint].slice(-2);
  }

  #secure({ lastTaken }: NodeRecord): void {
    const { outgoing } = this.#disk.rooms;
    for (const [name, bytes] of outgoing) {
      const isOnRecord = Number(/\d+/.exec(name)) <= lastTaken;
      if (!isOnRecord || this.#readDeltas.has(name)) continue;
      this.#readDeltas.add(name);
      for (const [place, value] of readPlainFile(bytes).floats.get(STEPS)!.entries())
        if (value !== 0) this.#secured.add(place);
    }
  }

  /** Invariant `local`. */
  #check({ node, model, contains, toComeBack, installedAtStart }: Life): void {
    const { auditor, initial, violate } = this.#world;
    const { nodeId } = this.setup;
    const { installed } = node.state;
    if (installed !== installedAtStart) for (const place of toComeBack) contains.add(place);
    const global = installed === undefined ? initial.steps : auditor.versions[installed]?.state.get(STEPS);
    if (global === undefined) {
      violate("local", `${nodeId} installed ${installed}, which was never published`);
      return;
    }
    for (const [place, value] of model.weights.steps.entries()) {
      const isOpen =
        auditor.options.ownerOf(place) === nodeId &&
        !(installed !== undefined && auditor.isDecided(place, installed));
      if (!isOpen && value === 1 && contains.has(place) && auditor.mayNotKnow(place, installed!)) continue;
      const has = isOpen && contains.has(place);
      if (
        value === (has ? 1 : isOpen && value === 1 && toComeBack.has(place) ? 1 : isOpen ? 0 : global[place]!)
      )
        continue;
      violate(
        "local",
        `${nodeId} with version ${installed} has the local step ${place} ${value} times, and ${has ? "must have it once" : isOpen ? "must not have it" : `the version ${global[place]} times`}`,
      );
    }
  }

  /** Invariants `reaches` and `converge`, when all is quiet. */
  checkEnd(): void {
    const { auditor, violate, counts } = this.#world;
    const { nodeId } = this.setup;
    const saved = this.#checkpoints.at(-1);
    if (!this.#isStopped || saved === undefined) {
      violate("live", `${nodeId} did not stop`);
      return;
    }
    const survived = new Set([...this.#secured, ...saved.contains]);
    for (const place of survived) {
      if (!auditor.decidedPlaces.has(place))
        violate("reaches", `the local step ${place} of ${nodeId} is in no decided delta`);
    }
    counts.set("lost steps", (counts.get("lost steps") ?? 0) + this.#nextPlace - survived.size);
    const state = new Map([
      [DRIFT, saved.weights.drift],
      ["head", saved.weights.drift],
      [STEPS, saved.weights.steps],
    ]);
    const { newest } = auditor;
    if (!auditor.isNewest(state) || saved.weights.count[0] !== newest?.publication.count)
      violate("converge", `${nodeId} does not have the weights of version ${newest?.publication.outerStep}`);
    const left = [...this.#disk.rooms.outgoing.keys()];
    if (left.length > 0) violate("converge", `${nodeId} still has ${left.join(", ")} to send`);
  }
}

function installedIn(saved: Checkpoint | undefined): number | undefined {
  const { installed } = (saved?.node ?? {}) as { readonly installed?: number | null };
  return installed ?? undefined;
}
