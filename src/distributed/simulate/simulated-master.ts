// The master in a simulation: the product's Aggregator, and a supervisor that starts it again whenever it ends.

import { toStream } from "../../formats/safetensors/container.js";
import { writeSafetensors } from "../../formats/safetensors/index.js";
import { Aggregator } from "../node/aggregator.js";
import { AggregatorError } from "../node/aggregator-errors.js";
import { TransportError } from "../transports/errors.js";
import { SimulatedDisk } from "./disk.js";
import type { SimulatedProcess } from "./process.js";
import { RandomStream } from "./random.js";
import { toState } from "./toy-model.js";
import { boot, count, FINGERPRINT, POLL_MS, type World } from "./world.js";

const MASTER = "master";

interface Life {
  readonly process: SimulatedProcess;
  readonly stop: AbortController;
  /** `drains` of the master when it came to an end last. */
  drained: number;
  /** It is the master: from here on trouble with the repository does not end it. */
  isRunning: boolean;
}

export class SimulatedMaster {
  readonly #world: World;
  readonly #random: RandomStream;
  #disk: SimulatedDisk;
  #lives = 0;
  #life: Life | undefined;
  /** How often draining was asked for. */
  #drains = 0;
  /** Earlier processes that were only asleep. */
  #sleepers = 0;

  constructor(world: World) {
    this.#world = world;
    this.#random = new RandomStream(world.seed, MASTER);
    this.#disk = this.#newDisk();
  }

  get isAlive(): boolean {
    return this.#life !== undefined;
  }

  get isDrained(): boolean {
    return this.#life !== undefined && this.#drains > 0 && this.#life.drained === this.#drains;
  }

  get sleepers(): number {
    return this.#sleepers;
  }

  start(): void {
    const world = this.#world;
    const process = boot(world, `${MASTER}#${++this.#lives}`, this.#lives);
    const life: Life = { process, stop: new AbortController(), drained: 0, isRunning: false };
    this.#life = life;
    this.#live(life, this.#disk).then(
      () => this.#ended(life, undefined),
      (error: unknown) => this.#ended(life, error),
    );
  }

  /** Dies, with or without its disk, or falls asleep; another process takes over after a while. */
  crash(): void {
    const life = this.#life;
    if (life === undefined) return;
    const { time } = this.#world;
    const random = this.#random;
    const isAsleep = random.chance(0.35);
    if (isAsleep) {
      const forMs = random.between(5000, 60_000);
      this.#log(life, `falls asleep for ${forMs}`);
      count(this.#world, "master suspensions");
      this.#sleepers++;
      life.process.suspend(forMs);
    } else {
      this.#log(life, "dies");
      count(this.#world, "master crashes");
      life.process.kill();
    }
    this.#life = undefined;
    // Two processes do not share a folder.
    if (isAsleep || random.chance(0.4)) this.#disk = this.#newDisk();
    time.after(random.between(500, 20_000), () => this.start());
  }

  /** Rounds until nothing is left; once more after every call. */
  drain(): void {
    this.#drains++;
    this.#life?.stop.abort();
  }

  async #live(life: Life, disk: SimulatedDisk): Promise<void> {
    const world = this.#world;
    const { process, stop } = life;
    const random = new RandomStream(world.seed, `network ${MASTER} ${this.#lives}`);
    const aggregator = await Aggregator.start({
      transport: world.network.connect(process, random),
      surroundings: {
        clock: process.clock,
        dateMs: () => 1_700_000_000_000 + Math.round(process.clock.now()),
        hasher: world.newHasher as never,
        scratch: disk.scratchOf(process),
      },
      settings: world.settings,
      masterId: MASTER,
      random: new RandomStream(world.seed, `life of ${process.name}`).next,
      pollIntervalMs: POLL_MS,
      fingerprint: FINGERPRINT,
      bootstrap: {
        writeState: async (sink) => {
          const streams = [...toState(world.initial)].map(([name, value]) => toStream(name, value));
          await writeSafetensors(sink, streams);
        },
      },
      onEvent: (event, payload) => {
        this.#log(life, `${event} ${JSON.stringify(payload)}`);
        count(world, `event ${event}`);
      },
    });
    life.isRunning = true;
    if (this.#drains === 0) await aggregator.runUntil({ signal: stop.signal });
    for (;;) {
      const drains = this.#drains;
      if (drains === 0) throw new Error("the aggregator ended without having been asked to");
      // Looks again even when nothing is left: one that has been replaced finds out only that way.
      await aggregator.drain();
      life.drained = drains;
      await process.sleep(POLL_MS);
    }
  }

  #ended(life: Life, error: unknown): void {
    const world = this.#world;
    const isFenced = error instanceof AggregatorError && error.problem === "fenced";
    this.#log(life, `ends: ${error instanceof Error ? error.message : String(error)}`);
    if (this.#life !== life) {
      this.#sleepers--;
      if (isFenced) count(world, "masters fenced off");
      else if (life.isRunning || !isTransient(error))
        world.violate("live", `a master that woke up ended with ${stackOf(error)}`);
      return;
    }
    const isExcused = isFenced ? this.#sleepers > 0 : !life.isRunning && isTransient(error);
    if (!isExcused) world.violate("live", `the master ended with ${stackOf(error)}`);
    count(world, "master restarts");
    this.#life = undefined;
    life.process.kill();
    world.time.after(2000, () => this.start());
  }

  #log(life: Life, what: string): void {
    this.#world.log(life.process.name, what);
  }

  #newDisk(): SimulatedDisk {
    const { newHasher, seed } = this.#world;
    return new SimulatedDisk({ newHasher, random: new RandomStream(seed, `disk ${MASTER} ${this.#lives}`) });
  }
}

function isTransient(error: unknown): boolean {
  return error instanceof TransportError && error.isTransient;
}

function stackOf(error: unknown): string {
  return error instanceof Error ? (error.stack ?? error.message) : String(error);
}
