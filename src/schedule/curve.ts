// The curves themselves: pure functions from the number of updates done to a factor of the peak rate. They know of
// no run; what happens when a resumed run ends elsewhere stands in run-schedule.ts.

import { ConfigError } from "../util/errors.js";

/** Factor of the peak rate for the update that follows `done` completed ones. */
export type Schedule = (done: number) => number;

export const scheduleNames = ["cosine", "constant", "linear", "inverse_sqrt", "wsd"] as const;
export type ScheduleName = (typeof scheduleNames)[number];

/** Curves of a user's own, by name. */
const registered = new Map<string, CustomCurve>();

/** The factor after the warm-up, which the options' `warmupSteps` brings about as for every curve. */
export type CustomCurve = (options: ScheduleOptions) => Schedule;

/**
 * Makes `curve` available as `scheduler.name`.
 * @throws ConfigError for what is no function, and for a name that is taken unless `replace` is set.
 */
export function registerSchedule(
  name: string,
  curve: CustomCurve,
  options: { replace?: boolean } = {},
): void {
  if (typeof name !== "string" || !/^[a-z][a-z0-9_-]*$/.test(name))
    throw new ConfigError(
      `a schedule needs a name of small letters, digits, "_" and "-", got ${JSON.stringify(name)}`,
      { code: "schedule.name", details: { name } },
    );
  if (typeof curve !== "function")
    throw new ConfigError(`the schedule "${name}" must be a function of its options, got ${typeof curve}`, {
      code: "schedule.not_a_curve",
      details: { name },
    });
  const isBuiltIn = (scheduleNames as readonly string[]).includes(name);
  if (isBuiltIn || (registered.has(name) && options.replace !== true))
    throw new ConfigError(
      `a schedule named "${name}" exists already: choose another name${isBuiltIn ? "" : ", or pass { replace: true }"}`,
      { code: "schedule.duplicate_name", details: { name } },
    );
  registered.set(name, curve);
}

export function customScheduleNames(): string[] {
  return [...registered.keys()].sort();
}

export const decayShapes = ["linear", "cosine", "sqrt"] as const;
export type DecayShape = (typeof decayShapes)[number];

export interface ScheduleOptions {
  readonly name: ScheduleName;
  readonly warmupSteps: number;
  /** Step at which the decay ends. */
  readonly horizon: number;
  /** Where the decay ends, as a share of the peak; for inverse_sqrt what it never falls below. */
  readonly minLrRatio: number;
  /**
   * Python Speedtronic's end points of the cosine: the full rate twice (last warm-up update and the next), and the
   * floor only after the horizon. Otherwise the full rate once and the floor at the last update.
   */
  readonly pythonEndpoints: boolean;
  /** Updates of the decay of wsd; null or left out: a fifth of the horizon, rounded up. */
  readonly decaySteps?: number | null;
  /** How wsd decays. Default linear. */
  readonly decayShape?: DecayShape;
}

/** From 1 at the begin of a decay to 0 at its end, exactly; `p` is the part that is done. */
const shapes: Readonly<Record<DecayShape, (p: number) => number>> = {
  linear: (p) => 1 - p,
  cosine: (p) => (1 + Math.cos(Math.PI * p)) / 2,
  sqrt: (p) => 1 - Math.sqrt(p),
};

/** The curve after the warm-up. `start` counts the updates before the first at the full rate. */
type Curve = (options: ScheduleOptions, start: number) => Schedule;

const curves: Readonly<Record<ScheduleName, Curve>> = {
  constant: () => () => 1,
  cosine: (options, start) => decay(options, start, lastUpdate(options), "cosine"),
  linear: (options, start) => decay(options, start, lastUpdate(options), "linear"),
  wsd: (options, start) => {
    const end = lastUpdate(options);
    const steps = options.decaySteps ?? Math.ceil(options.horizon / 5);
    return decay(options, Math.max(start, end - steps), end, options.decayShape ?? "linear");
  },
  // Anchored at the end of the warm-up, so that the full rate is used there: √(W / n) for the n-th update.
  inverse_sqrt: ({ minLrRatio }, start) => {
    const scale = start + 1;
    return (done) => Math.max(minLrRatio, Math.sqrt(scale / (done + 1)));
  },
};

export function buildSchedule(options: ScheduleOptions): Schedule {
  const warmup = Math.max(0, options.warmupSteps);
  const own = registered.get(options.name);
  const curve = own ? own(options) : curves[options.name](options, peakUpdate(options));
  return (done) => (done < warmup ? Math.max(1e-8, (done + 1) / warmup) : curve(done));
}

/** Updates done before the one at which the curve begins to fall. */
export function peakUpdate(options: ScheduleOptions): number {
  const warmup = Math.max(0, options.warmupSteps);
  return hasPythonEndpoints(options) || warmup === 0 ? warmup : warmup - 1;
}

/** Updates done before the one that reaches the floor. */
export function lastUpdate(options: ScheduleOptions): number {
  const horizon = Math.max(1, options.horizon);
  return hasPythonEndpoints(options) ? horizon : horizon - 1;
}

/** Curves that depend on where the run ends. */
export function hasEnd({ name }: Pick<ScheduleOptions, "name">): boolean {
  return name !== "constant" && name !== "inverse_sqrt";
}

/** Python Speedtronic knows one curve that has an end. */
function hasPythonEndpoints({ name, pythonEndpoints }: ScheduleOptions): boolean {
  return pythonEndpoints && name === "cosine";
}

function decay({ minLrRatio }: ScheduleOptions, start: number, end: number, shape: DecayShape): Schedule {
  const of = shapes[shape];
  return (done) => {
    const part = Math.min(Math.max((done - start) / Math.max(1, end - start), 0), 1);
    return minLrRatio + (1 - minLrRatio) * of(part);
  };
}
