// What the seconds of one fit went to. Parts are disjoint, and what nobody claims is `other`.

export type TimePart =
  | "data"
  | "compile"
  | "graph"
  | "optimizer"
  | "sync"
  | "evaluation"
  | "sample"
  | "checkpoint";

export class StepTimes {
  readonly #startMs = performance.now();
  readonly #seconds = new Map<TimePart, number>();

  add(part: TimePart, seconds: number): void {
    this.#seconds.set(part, (this.#seconds.get(part) ?? 0) + seconds);
  }

  /** Counts the time that `work` takes. */
  async during<T>(part: TimePart, work: () => Promise<T>): Promise<T> {
    const startMs = performance.now();
    try {
      return await work();
    } finally {
      this.add(part, (performance.now() - startMs) / 1000);
    }
  }

  /** Seconds by part; those that took none are absent. */
  totals(): Record<string, number> {
    const claimed = [...this.#seconds.values()].reduce((sum, seconds) => sum + seconds, 0);
    const other = Math.max(0, (performance.now() - this.#startMs) / 1000 - claimed);
    return { ...Object.fromEntries(this.#seconds), other };
  }
}
