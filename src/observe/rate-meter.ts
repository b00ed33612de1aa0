// Speed and time left. Counts only what this process did, so both are right after a resume. Pauses (evaluation,
// checkpoints, sampling) are left out of training rates, and spread over the steps in the time left.

/** Cumulative counts after a step, as `train_step` reports them. */
export interface StepCounts {
  step: number;
  samples: number;
  tokens: number;
}

export interface RateMeterOptions {
  /** Counts before the first step of this process. */
  start: StepCounts;
  targetStep: number;
  /** Steps in the moving window. Default 50. */
  windowSteps?: number;
  /** Model FLOPs per token (forward and backward) and the machine's measured peak in FLOP/s, both for `mfu`. */
  flopsPerToken?: number;
  peakFlops?: number;
  nowMs?: () => number;
}

export interface Rates {
  /** Seconds since the meter was made. */
  elapsedS: number;
  /** Seconds of this step, pauses excluded. */
  stepS: number;
  /** Per second of wall time since the meter was made, pauses included. */
  stepsPerSec: number;
  samplesPerSec: number;
  tokensPerSec: number;
  /** Per second of training time, over the window. */
  stepsPerSecTrain: number;
  tokensPerSecTrain: number;
  /** Seconds until the target step, pauses included at their rate so far. */
  etaS: number;
  /** Share of the machine's peak, 0 to 1, over the window; absent without FLOP figures. */
  mfu?: number;
}

interface WindowEntry {
  readonly seconds: number;
  readonly steps: number;
  readonly tokens: number;
}

const perSecond = (amount: number, seconds: number): number => (seconds > 0 ? amount / seconds : 0);

export class RateMeter {
  readonly #options: RateMeterOptions;
  readonly #nowMs: () => number;
  readonly #startMs: number;
  #previous: StepCounts;
  #previousMs: number;
  #window: WindowEntry[] = [];
  #records = 0;
  #pauseDepth = 0;
  #pauseStartMs = 0;
  /** Paused since the last record, and since the first one. */
  #pausedMs = 0;
  #pausedLaterMs = 0;

  constructor(options: RateMeterOptions) {
    this.#options = options;
    this.#nowMs = options.nowMs ?? (() => performance.now());
    this.#startMs = this.#nowMs();
    this.#previousMs = this.#startMs;
    this.#previous = { ...options.start };
  }

  /** Begins time that is not training. Calls nest. */
  pause(): void {
    if (this.#pauseDepth === 0) this.#pauseStartMs = this.#nowMs();
    this.#pauseDepth += 1;
  }

  /** Ends what the matching {@link pause} began. */
  resume(): void {
    if (this.#pauseDepth === 0) return;
    this.#pauseDepth -= 1;
    if (this.#pauseDepth > 0) return;
    const pausedMs = this.#nowMs() - this.#pauseStartMs;
    this.#pausedMs += pausedMs;
    if (this.#records > 0) this.#pausedLaterMs += pausedMs;
  }

  /** Runs `work` as a pause and gives its result. */
  async paused<T>(work: () => Promise<T>): Promise<T> {
    this.pause();
    try {
      return await work();
    } finally {
      this.resume();
    }
  }

  /** Takes in a completed step and gives the rates after it. */
  record(counts: StepCounts): Rates {
    const nowMs = this.#nowMs();
    const { start, targetStep, flopsPerToken, peakFlops } = this.#options;
    const stepS = Math.max(0, nowMs - this.#previousMs - this.#pausedMs) / 1000;
    this.#addToWindow({
      seconds: stepS,
      steps: counts.step - this.#previous.step,
      tokens: counts.tokens - this.#previous.tokens,
    });
    this.#previous = { ...counts };
    this.#previousMs = nowMs;
    this.#pausedMs = 0;

    const elapsedS = (nowMs - this.#startMs) / 1000;
    const recent = this.#sumWindow();
    const tokensPerSecTrain = perSecond(recent.tokens, recent.seconds);
    const secondsPerStep =
      recent.seconds / Math.max(1, recent.steps) +
      this.#pausedLaterMs / 1000 / Math.max(1, counts.step - start.step);
    return {
      elapsedS,
      stepS,
      stepsPerSec: perSecond(counts.step - start.step, elapsedS),
      samplesPerSec: perSecond(counts.samples - start.samples, elapsedS),
      tokensPerSec: perSecond(counts.tokens - start.tokens, elapsedS),
      stepsPerSecTrain: perSecond(recent.steps, recent.seconds),
      tokensPerSecTrain,
      etaS: Math.max(0, targetStep - counts.step) * secondsPerStep,
      ...(flopsPerToken && peakFlops ? { mfu: (tokensPerSecTrain * flopsPerToken) / peakFlops } : {}),
    };
  }

  #addToWindow(entry: WindowEntry): void {
    this.#records += 1;
    // The first step of a process also compiles and warms up; it counts only until there is a better one.
    if (this.#records === 2) this.#window = [];
    this.#window.push(entry);
    if (this.#window.length > (this.#options.windowSteps ?? 50)) this.#window.shift();
  }

  #sumWindow(): WindowEntry {
    return this.#window.reduce((sum, entry) => ({
      seconds: sum.seconds + entry.seconds,
      steps: sum.steps + entry.steps,
      tokens: sum.tokens + entry.tokens,
    }));
  }
}
