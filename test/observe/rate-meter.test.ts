// Rates and time left, with a clock that the test moves.
import { expect, test } from "vitest";
import { RateMeter } from "../../src/observe/index.js";
import { FakeClock } from "./fixtures.js";

const counts = (step: number) => ({ step, samples: step * 2, tokens: step * 100 });

test("after a resume only this process's steps count", () => {
  const clock = new FakeClock();
  const meter = new RateMeter({ start: counts(900), targetStep: 1000, nowMs: clock.monotonicMs });
  clock.ms += 3000;
  expect(meter.record(counts(901))).toMatchObject({ stepS: 3, stepsPerSec: 1 / 3, etaS: 99 * 3 });
  clock.ms += 500;
  // The slow first step stays in the wall rates and leaves the window.
  expect(meter.record(counts(902))).toEqual({
    elapsedS: 3.5,
    stepS: 0.5,
    stepsPerSec: 2 / 3.5,
    samplesPerSec: 4 / 3.5,
    tokensPerSec: 200 / 3.5,
    stepsPerSecTrain: 2,
    tokensPerSecTrain: 200,
    etaS: 98 * 0.5,
  });
});

test("pauses count in wall rates and the time left, not in training rates", async () => {
  const clock = new FakeClock();
  const meter = new RateMeter({ start: counts(0), targetStep: 20, nowMs: clock.monotonicMs });
  for (let step = 1; step <= 9; step++) {
    clock.ms += 1000;
    meter.record(counts(step));
  }
  await meter.paused(async () => {
    meter.pause();
    clock.ms += 5000;
    meter.resume();
  });
  clock.ms += 1000;
  expect(meter.record(counts(10))).toEqual({
    elapsedS: 15,
    stepS: 1,
    stepsPerSec: 10 / 15,
    samplesPerSec: 20 / 15,
    tokensPerSec: 1000 / 15,
    stepsPerSecTrain: 1,
    tokensPerSecTrain: 100,
    etaS: 10 * (1 + 0.5),
  });
});

test("the window follows a change of speed, and the end has no time left", () => {
  const clock = new FakeClock();
  const meter = new RateMeter({
    start: counts(0),
    targetStep: 100,
    windowSteps: 10,
    nowMs: clock.monotonicMs,
  });
  let etaS = 0;
  for (let step = 1; step <= 100; step++) {
    clock.ms += step <= 50 ? 100 : 400;
    etaS = meter.record(counts(step)).etaS;
    if (step === 50) expect(etaS).toBeCloseTo(5, 9);
    if (step === 60) expect(etaS).toBeCloseTo(16, 9);
  }
  expect(etaS).toBe(0);
});

test("mfu is the share of the peak", () => {
  const clock = new FakeClock();
  const meter = new RateMeter({
    start: counts(0),
    targetStep: 2,
    flopsPerToken: 6e6,
    peakFlops: 2e9,
    nowMs: clock.monotonicMs,
  });
  clock.ms += 1000;
  expect(meter.record(counts(1)).mfu).toBeCloseTo(0.3, 12);
});
