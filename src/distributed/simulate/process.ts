// A process on a simulated machine. All that it waits for goes through here, so that killing it means that nothing ever
// comes back to it, and suspending it that everything comes back later.

import type { Clock } from "../node/clock.js";
import type { VirtualTime } from "./virtual-time.js";

/** How a machine's clock differs from the true time. */
export interface ClockSkew {
  readonly offsetMs: number;
  /** Its milliseconds per true one. */
  readonly rate: number;
}

export class SimulatedProcess {
  readonly name: string;
  readonly #time: VirtualTime;
  readonly #skew: ClockSkew;
  #isDead = false;
  #suspendedUntilMs = 0;

  constructor(name: string, time: VirtualTime, skew: ClockSkew = { offsetMs: 0, rate: 1 }) {
    this.name = name;
    this.#time = time;
    this.#skew = skew;
  }

  get isDead(): boolean {
    return this.#isDead;
  }

  /** The machine's own clock. */
  readonly clock: Clock = {
    now: () => this.#skew.offsetMs + this.#time.nowMs * this.#skew.rate,
    sleep: (ms, signal) => this.sleep(ms / this.#skew.rate, signal),
  };

  /** In true time. Never ends for a dead process. */
  sleep(ms: number, signal?: AbortSignal): Promise<void> {
    if (signal?.aborted === true) return Promise.resolve();
    return new Promise((resolve) => {
      const wake = () => {
        cancel();
        signal?.removeEventListener("abort", wake);
        resolve();
      };
      const cancel = this.#time.after(ms, () => this.deliver(wake));
      signal?.addEventListener("abort", wake);
    });
  }

  /** Something from outside arrives: now, after the suspension, or never. */
  deliver(run: () => void): void {
    if (this.#isDead) return;
    const waitMs = this.#suspendedUntilMs - this.#time.nowMs;
    if (waitMs <= 0) run();
    else this.#time.after(waitMs, () => this.deliver(run));
  }

  kill(): void {
    this.#isDead = true;
  }

  suspend(ms: number): void {
    this.#suspendedUntilMs = this.#time.nowMs + ms;
  }
}
