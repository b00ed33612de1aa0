// Whatever happens in whatever order: each local step is in a node's own weights once, and in the end in the global
// sum once.

import fc from "fast-check";
import { expect, test } from "vitest";
import {
  add,
  type FleetOptions,
  SimulatedFleet,
  type SimulatedWorker,
  type Vector,
} from "./simulated-fleet.js";

// Without shrinking, which takes longer than a test may.
const runs = { numRuns: 40, seed: 20260104, endOnFailure: true };
// Even, and long: else there are hardly any rounds before the end, and little happens between two of them.
const number = fc.noBias(fc.nat(10_000));
const history = fc.array(fc.tuple(number, number), { minLength: 100, maxLength: 500, size: "max" });
const sizes = {
  workers: fc.integer({ min: 1, max: 4 }),
  innerSteps: fc.integer({ min: 1, max: 3 }),
  maxQueued: fc.integer({ min: 1, max: 3 }),
};

const isSame = (a: Vector, b: Vector) =>
  a.size === b.size && [...a].every(([place, value]) => b.get(place) === value);
const sorted = (vector: Vector) => [...vector].sort(([a], [b]) => a - b);
const allOnce = (fleet: SimulatedFleet) => Array.from({ length: fleet.stepCount }, (_, place) => [place, 1]);

/** Plays a history and looks at whoever did something: `isGood` says whether that node's weights are. */
function play(
  options: FleetOptions,
  choices: readonly (readonly [number, number])[],
  isGood: (worker: SimulatedWorker) => boolean,
): SimulatedFleet {
  const fleet = new SimulatedFleet(options);
  for (const [choice, detail] of choices) {
    const worker = fleet.act(choice, detail);
    if (!isSame(worker.weights, worker.expectedWeights))
      expect(sorted(worker.weights)).toEqual(sorted(worker.expectedWeights));
    if (!isGood(worker)) expect.fail(`weights of ${worker.nodeId}: ${sorted(worker.weights).join(" ")}`);
  }
  versions.push(fleet.versions.length);
  fleet.settle();
  return fleet;
}

/** Versions that there were before everything came to rest, by history. */
const versions: number[] = [];
const hasNoneTwice = ({ weights }: SimulatedWorker) => [...weights.values()].every((value) => value === 1);

test("L-37 L-05 L-16 L-21 L-44 with a ledger each step is in its node's weights once, always, and in the sum once", () => {
  const property = fc.property(fc.record(sizes), history, (size, choices) => {
    const options = { ...size, publishesLedger: true, stalenessLimit: Number.POSITIVE_INFINITY };
    const fleet = play(options, choices, ({ weights, places }) =>
      places.every((place) => weights.get(place) === 1),
    );
    expect(sorted(fleet.versions.at(-1)!.weights)).toEqual(allOnce(fleet));
    for (const { weights } of fleet.workers) expect(sorted(weights)).toEqual(allOnce(fleet));
  });
  fc.assert(property, runs);
});

test("L-37 L-21 without a ledger each step reaches the sum once, and no weights hold one twice", () => {
  const property = fc.property(fc.record(sizes), history, (size, choices) => {
    const options = { ...size, publishesLedger: false, stalenessLimit: Number.POSITIVE_INFINITY };
    const fleet = play(options, choices, hasNoneTwice);
    expect(sorted(fleet.versions.at(-1)!.weights)).toEqual(allOnce(fleet));
    for (const { weights } of fleet.workers) expect(sorted(weights)).toEqual(allOnce(fleet));
  });
  fc.assert(property, runs);
});

test("L-07 with a staleness limit a step is in the sum once or not at all, and weights end equal but for what has no fate yet", () => {
  let refusedRuns = 0;
  const property = fc.property(fc.record(sizes), history, (size, choices) => {
    const fleet = play({ ...size, publishesLedger: true, stalenessLimit: 0 }, choices, hasNoneTwice);
    const global = fleet.versions.at(-1)!.weights;
    expect([...global.values()].filter((value) => value !== 1)).toEqual([]);
    if (global.size < fleet.stepCount) refusedRuns++;
    // Fates are published with the next round; what waits for it is in the weights of its own node alone.
    for (const { weights, ownPending } of fleet.workers) {
      expect(sorted(weights)).toEqual(sorted(add(global, ownPending, -1)));
    }
  });
  fc.assert(property, runs);
  expect(refusedRuns).toBeGreaterThan(0);
});

test("those histories have several rounds before their end", () => {
  expect(versions.length).toBe(3 * runs.numRuns);
  expect(versions.filter((count) => count > 3).length).toBeGreaterThan(runs.numRuns);
});
