// A thousand small fleets with every fault, and a few of the size that `speedtronic simulate` has by default.

import { expect, test } from "vitest";
import { newSha256 } from "../../../src/distributed/node/outbox.node.js";
import { formatViolation, simulateFleet } from "../../../src/distributed/simulate/index.js";

async function violationsOf(shape: { workers: number; rounds: number }, first: number, count: number) {
  const found: string[] = [];
  for (let seed = first; seed < first + count; seed++) {
    const { violations } = await simulateFleet({ ...shape, seed, newHasher: newSha256 });
    if (violations.length > 0) found.push(`seed ${seed}: ${formatViolation(violations[0]!)}`);
  }
  return found;
}

test("1,000 seeds of 4 workers and 8 rounds violate nothing", async () => {
  expect(await violationsOf({ workers: 4, rounds: 8 }, 1, 1000)).toEqual([]);
});

test("50 seeds of 8 workers and 20 rounds violate nothing", async () => {
  expect(await violationsOf({ workers: 8, rounds: 20 }, 1, 50)).toEqual([]);
});
