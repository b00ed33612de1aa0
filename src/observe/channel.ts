// The way to one sink: cadence, order, a bounded queue while the sink is busy, and a wall around its failures.
// It never throws and never waits; problems are reported through a callback, each kind once.
import { StepCadence } from "./cadence.js";
import { copyPayload } from "./payload.js";
import type { EmissionScope, EventRecord } from "./record.js";
import { type EventPayload, isPromiseLike, type Sink } from "./sink.js";

export type ChannelProblem = "failed" | "dropped" | "timeout";

export interface ChannelOptions {
  readonly scope: EmissionScope;
  readonly queueLimit: number;
  /** Longest wait for a sink in `flush` and `close`. */
  readonly timeoutMs: number;
  onProblem(channel: SinkChannel, problem: ChannelProblem, error?: unknown): void;
}

/** After so many awaited writes in a row the channel lets timers and I/O run. */
const writesPerTurn = 64;

export class SinkChannel {
  readonly sink: Sink;
  readonly #options: ChannelOptions;
  readonly #cadence: StepCadence;
  #queue: EventRecord[] = [];
  #isBusy = false;
  #isClosed = false;
  #awaited = 0;
  #idleWaiters: (() => void)[] = [];
  #failures = 0;
  #dropped = 0;

  constructor(sink: Sink, options: ChannelOptions) {
    this.sink = sink;
    this.#options = options;
    this.#cadence = new StepCadence(sink.everySteps ?? 1);
  }

  get failures(): number {
    return this.#failures;
  }

  /** Records given up because the sink was too slow. */
  get dropped(): number {
    return this.#dropped;
  }

  push(record: EventRecord): void {
    if (this.#isClosed || record.except === this) return;
    for (const admitted of this.#cadence.admit(record)) this.#enqueue(admitted);
  }

  async flush(): Promise<void> {
    await this.#idle();
    await this.#guard("flush");
  }

  /** Takes nothing new, delivers what waits, then flushes and closes the sink. */
  async close(): Promise<void> {
    if (this.#isClosed) return;
    for (const held of this.#cadence.takeHeld()) this.#enqueue(held);
    this.#isClosed = true;
    await this.#idle();
    await this.#guard("flush");
    await this.#guard("close");
  }

  #enqueue(record: EventRecord): void {
    this.#queue.push(record);
    if (!this.#isBusy) this.#pump();
    if (this.#queue.length <= this.#options.queueLimit) return;
    this.#queue.shift();
    this.#dropped += 1;
    if (this.#dropped === 1) this.#options.onProblem(this, "dropped");
  }

  #pump(): void {
    for (;;) {
      const record = this.#queue.shift();
      if (record === undefined) break;
      this.#isBusy = true;
      const pending = this.#write(record);
      if (pending !== undefined) {
        void pending.then(() => this.#afterAwait());
        return;
      }
      this.#isBusy = false;
    }
    for (const wake of this.#idleWaiters.splice(0)) wake();
  }

  #afterAwait(): void {
    const proceed = (): void => {
      this.#isBusy = false;
      this.#pump();
    };
    this.#awaited += 1;
    if (this.#awaited % writesPerTurn === 0) setTimeout(proceed, 0);
    else proceed();
  }

  #write(record: EventRecord): Promise<void> | undefined {
    const { scope } = this.#options;
    const outerDepth = scope.depth;
    scope.depth = record.depth + 1;
    try {
      const payload = copyPayload(record.payload, {}) as EventPayload;
      if (this.sink.accept?.(record.event, payload) === false) return undefined;
      const result = this.sink.write(record.event, payload, record);
      if (!isPromiseLike(result)) return undefined;
      return Promise.resolve(result).then(undefined, (error: unknown) => this.#fail(error));
    } catch (error) {
      this.#fail(error);
      return undefined;
    } finally {
      scope.depth = outerDepth;
    }
  }

  #fail(error: unknown): void {
    this.#failures += 1;
    if (this.#failures === 1) this.#options.onProblem(this, "failed", error);
  }

  #idle(): Promise<void> {
    if (!this.#isBusy && this.#queue.length === 0) return Promise.resolve();
    return this.#withTimeout(
      new Promise((resolve) => {
        this.#idleWaiters.push(resolve);
      }),
    );
  }

  async #guard(action: "flush" | "close"): Promise<void> {
    try {
      await this.#withTimeout(Promise.resolve(this.sink[action]?.()));
    } catch (error) {
      this.#fail(error);
    }
  }

  #withTimeout(work: Promise<void>): Promise<void> {
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        this.#dropped += this.#queue.length;
        this.#queue = [];
        this.#options.onProblem(this, "timeout");
        resolve();
      }, this.#options.timeoutMs);
      void work.then(resolve, reject).finally(() => clearTimeout(timer));
    });
  }
}
