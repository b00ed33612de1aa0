// The schedule of one run over all its resumes. A run that was resumed with another end goes on from the rate at which
// it was saved, so that the curve has no jump. What a checkpoint keeps of it is plain data; the curve itself always
// follows from the configuration.

import { ConfigError } from "../util/errors.js";
import {
  buildSchedule,
  hasEnd,
  lastUpdate,
  peakUpdate,
  type Schedule,
  type ScheduleName,
  type ScheduleOptions,
} from "./curve.js";

/**
 * What the curve does when a resumed run ends elsewhere: go on from the rate where it was and fall to the floor in the
 * new curve's shape; return to the new curve over the length of the warm-up; or be the new curve at once.
 */
export const movedEnds = ["continue", "rewarm", "jump"] as const;
export type MovedEnd = (typeof movedEnds)[number];

/** Where a curve was taken up again. */
export interface Joint {
  /** Updates done at the resume. */
  readonly step: number;
  /** Factor of the next update. */
  readonly factor: number;
  readonly how: MovedEnd;
}

/** What a checkpoint keeps. */
export interface SavedSchedule {
  readonly name: ScheduleName;
  readonly horizon: number;
  /** Factor of the next update. */
  readonly factor: number;
  readonly joint: Joint | null;
}

export class RunSchedule {
  readonly #options: ScheduleOptions;
  readonly #movedEnd: MovedEnd;
  #joint: Joint | null = null;
  #schedule: Schedule;

  constructor(options: ScheduleOptions, movedEnd: MovedEnd = "continue") {
    this.#options = options;
    this.#movedEnd = movedEnd;
    this.#schedule = checkSchedule(buildSchedule(options));
  }

  /** Factor of the peak rate for the update that follows `done` completed ones. */
  at(done: number): number {
    return this.#schedule(done);
  }

  save(done: number): SavedSchedule {
    const { name, horizon } = this.#options;
    return { name, horizon, factor: this.at(done), joint: this.#joint };
  }

  /**
   * Takes the curve up again after `step` updates. Returns a sentence when it has moved here.
   * @param saved what {@link save} gave; anything else leaves the curve as the options say
   */
  resume(saved: unknown, step: number): string | undefined {
    const before = readSaved(saved);
    if (before === undefined || before.name !== this.#options.name || !hasEnd(before)) return undefined;
    const { horizon } = this.#options;
    if (before.horizon === horizon) {
      this.#join(before.joint);
      return undefined;
    }
    // Both curves pass here: nothing to join.
    if (before.factor === this.#schedule(step)) return undefined;
    const how = this.#movedEnd;
    if (how !== "jump") this.#join({ step, factor: before.factor, how });
    return `the learning rate decays until step ${horizon} instead of ${before.horizon}: ${this.#describe(before.factor, step)}`;
  }

  #join(joint: Joint | null): void {
    this.#joint = joint;
    const schedule = checkSchedule(buildSchedule(this.#options));
    this.#schedule = joint === null ? schedule : joinSchedule(schedule, this.#options, joint);
  }

  #describe(factor: number, step: number): string {
    const [before, now] = [factor, this.at(step)].map((value) => Number(value.toPrecision(4)));
    if (before !== now) return `it changes from ${before} to ${now} of its peak`;
    const isOver = this.#joint?.how === "continue" && factor === this.#options.minLrRatio;
    return isOver
      ? `it is at its floor of ${now} of the peak and stays there; scheduler.moved_end "rewarm" raises it again`
      : `it goes on from ${now} of its peak`;
  }
}

/**
 * A schedule that somebody else wrote, which is believed nothing.
 * @throws ConfigError when it gives no factor
 */
export function checkSchedule(schedule: Schedule): Schedule {
  return (done) => {
    const factor: unknown = schedule(done);
    if (isNumber(factor) && factor >= 0) return factor;
    throw new ConfigError(
      `the schedule gave ${String(factor)} for the update after ${done}; it must give a finite number of at least 0, a factor of optimizer.lr`,
      { code: "schedule.not_a_factor", details: { done, factor } },
    );
  };
}

/** `base` from the joint on, without a jump there; its end stays exact. */
export function joinSchedule(base: Schedule, options: ScheduleOptions, joint: Joint): Schedule {
  const { step, factor, how } = joint;
  const end = lastUpdate(options);
  const fresh = base(step);
  // With nothing left to decay over, what the new curve ends at counts.
  if (how === "jump" || step >= end) return base;
  const peak = peakUpdate(options);
  if (how === "rewarm" || step < peak) {
    const until = step < peak ? peak : Math.min(end, step + options.warmupSteps);
    const length = until - step;
    return (done) => {
      if (done < step || done >= until || length <= 0) return base(done);
      const part = (done - step) / length;
      const target = step < peak ? 1 : base(done);
      return factor * (1 - part) + target * part;
    };
  }
  const floor = options.minLrRatio;
  if (fresh <= floor) return base;
  const scale = (factor - floor) / (fresh - floor);
  return (done) => {
    if (done < step) return base(done);
    return done === step ? factor : floor + (base(done) - floor) * scale;
  };
}

function readSaved(value: unknown): SavedSchedule | undefined {
  const { name, horizon, factor, joint } = (value ?? {}) as Partial<SavedSchedule>;
  if (typeof name !== "string" || !isNumber(horizon) || !isNumber(factor)) return undefined;
  return { name, horizon, factor, joint: isJoint(joint) ? joint : null };
}

function isJoint(value: unknown): value is Joint {
  const { step, factor, how } = (value ?? {}) as Partial<Joint>;
  return isNumber(step) && isNumber(factor) && movedEnds.includes(how as MovedEnd);
}

function isNumber(value: unknown): value is number {
  return typeof value === "number" && Number.isFinite(value);
}
