// Learning-rate schedules: pure functions from the number of updates done to a factor of the peak rate.

/** Factor of the peak rate for the update that follows `done` completed ones. */
export type Schedule = (done: number) => number;

export interface ScheduleOptions {
  readonly name: "cosine" | "constant";
  readonly warmupSteps: number;
  /** Step at which the decay ends. */
  readonly horizon: number;
  /** Where the cosine ends, as a share of the peak. */
  readonly minLrRatio: number;
  /**
   * Python Speedtronic's end points: the full rate twice (last warm-up update and the next), and the floor
   * only after the horizon. Otherwise the full rate once and the floor at the last update.
   */
  readonly pythonEndpoints: boolean;
}

export function buildSchedule(options: ScheduleOptions): Schedule {
  const { name, warmupSteps, minLrRatio, pythonEndpoints } = options;
  const horizon = Math.max(1, options.horizon);
  const warmup = Math.max(0, warmupSteps);
  // First update of the decay, and the one that reaches the floor, as counts of completed updates.
  const start = pythonEndpoints || warmup === 0 ? warmup : warmup - 1;
  const end = pythonEndpoints ? horizon : horizon - 1;
  return (done) => {
    if (done < warmup) return Math.max(1e-8, (done + 1) / warmup);
    if (name === "constant") return 1;
    const progress = Math.min(Math.max((done - start) / Math.max(1, end - start), 0), 1);
    return minLrRatio + ((1 - minLrRatio) * (1 + Math.cos(Math.PI * progress))) / 2;
  };
}
