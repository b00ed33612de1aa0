// Which `train_step` events one sink gets: each n-th, and always the first and the last. The last one is known
// early when the run reaches its target; when it stops before, the step held back is given at the end.
import type { EventRecord } from "./record.js";

export class StepCadence {
  readonly #everySteps: number;
  #isFirst = true;
  #targetStep: number | undefined;
  #held: EventRecord | undefined;

  constructor(everySteps: number) {
    this.#everySteps = Math.max(1, Math.floor(everySteps));
  }

  /** Records to deliver now, in order, in answer to a new one. */
  admit(record: EventRecord): readonly EventRecord[] {
    const { event, payload } = record;
    if (event === "train_step") return this.#admitStep(record, payload.step);
    if (event === "train_start") {
      this.#isFirst = true;
      this.#targetStep = typeof payload.target_step === "number" ? payload.target_step : undefined;
    }
    return event === "train_end" ? [...this.takeHeld(), record] : [record];
  }

  /** The newest step held back, if no later one was given. */
  takeHeld(): readonly EventRecord[] {
    const held = this.#held;
    this.#held = undefined;
    return held === undefined ? [] : [held];
  }

  #admitStep(record: EventRecord, step: unknown): readonly EventRecord[] {
    const isDue = typeof step !== "number" || step % this.#everySteps === 0;
    if (this.#isFirst || isDue || step === this.#targetStep) {
      this.#isFirst = false;
      this.#held = undefined;
      return [record];
    }
    this.#held = record;
    return [];
  }
}
