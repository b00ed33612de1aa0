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

const runs = { numRuns: 150, seed: 20260104 };
const history = fc.array(fc.tuple(fc.nat(1000), fc.nat(1000)), { minLength: 20, maxLength: 220 });
const sizes = {
  workers: fc.integer({ min: 1, max: 4 }),
  innerSteps: fc.integer({ min: 1, max: 4 }),
  maxQueued: fc.integer({ min: 1, max: 3 }),
};

const sorted = (vector: Vector) => [...vector].sort(([a], [b]) => a - b);
const allOnce = (fleet: SimulatedFleet) => Array.from({ length: fleet.stepCount }, (_, place) => [place, 1]);

function play(
  options: FleetOptions,
  choices: readonly (readonly [number, number])[],
  check: (worker: SimulatedWorker) => void,
): SimulatedFleet {
  const fleet = new SimulatedFleet(options);
  for (const [choice, detail] of choices) {
    fleet.act(choice, detail);
    for (const worker of fleet.workers) {
      expect(sorted(worker.weights)).toEqual(sorted(worker.expectedWeights));
      check(worker);
    }
  }
  fleet.settle();
  return fleet;
}

test("L-37 L-05 L-16 L-21 L-44 with a ledger each step is in its node's weights once, always, and in the sum once", () => {
  const property = fc.property(fc.record(sizes), history, (size, choices) => {
    const options = { ...size, publishesLedger: true, stalenessLimit: Number.POSITIVE_INFINITY };
    const fleet = play(options, choices, ({ weights, places }) => {
      expect(places.map((place) => weights.get(place))).toEqual(places.map(() => 1));
    });
    expect(sorted(fleet.versions.at(-1)!.weights)).toEqual(allOnce(fleet));
    for (const { weights } of fleet.workers) expect(sorted(weights)).toEqual(allOnce(fleet));
  });
  fc.assert(property, runs);
});

test("L-37 L-21 without a ledger each step reaches the sum once, and no weights hold one twice", () => {
  const property = fc.property(fc.record(sizes), history, (size, choices) => {
    const options = { ...size, publishesLedger: false, stalenessLimit: Number.POSITIVE_INFINITY };
    const fleet = play(options, choices, ({ weights }) => {
      expect([...weights.values()].filter((value) => value !== 1)).toEqual([]);
    });
    expect(sorted(fleet.versions.at(-1)!.weights)).toEqual(allOnce(fleet));
    for (const { weights } of fleet.workers) expect(sorted(weights)).toEqual(allOnce(fleet));
  });
  fc.assert(property, runs);
});

test("L-07 with a staleness limit a step is in the sum once or not at all, and weights end equal but for what has no fate yet", () => {
  let refusedRuns = 0;
  const property = fc.property(fc.record(sizes), history, (size, choices) => {
    const fleet = play({ ...size, publishesLedger: true, stalenessLimit: 0 }, choices, ({ weights }) => {
      expect([...weights.values()].filter((value) => value !== 1)).toEqual([]);
    });
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
