// What stays of a run: the newest, the best, the milestones; never less, and nothing of another run's.

import { readdir } from "node:fs/promises";
import { join } from "node:path";
import fc from "fast-check";
import { trainFromConfig } from "speedtronic";
import { CheckpointStore } from "speedtronic/checkpoint";
import { describe, expect, it } from "vitest";

import { selectForRemoval } from "../../src/checkpoint/retention.js";
import { bookFile, recordEvents, temporaryFolder, tinyConfig } from "../train/helpers.js";
import { stateAt } from "./state.js";

function withLoss(step: number, loss: number | null) {
  const state = stateAt(step);
  const validation = loss === null ? null : { loss, tokens: 8 };
  return { ...state, trainer: { ...state.trainer, validation } };
}

async function keptSteps(
  policy: { keepLast: number | null; keepBest?: number; keepEvery?: number },
  losses: readonly (number | null)[],
): Promise<number[]> {
  const store = new CheckpointStore({ directory: temporaryFolder(), runId: "run", ...policy });
  for (const [index, loss] of losses.entries()) await store.save(withLoss(index + 1, loss));
  return (await store.list()).map(({ step }) => step);
}

describe("checkpoints that stay", () => {
  it("are the best by validation loss, besides the newest", async () => {
    expect(await keptSteps({ keepLast: 1, keepBest: 1 }, [3, 1, 2, 4])).toEqual([2, 4]);
    expect(await keptSteps({ keepLast: 1, keepBest: 2 }, [3, 1, 2, 4])).toEqual([2, 3, 4]);
    expect(await keptSteps({ keepLast: 2, keepBest: 0 }, [3, 1, 2, 4])).toEqual([3, 4]);
  });

  it("never include steps without validation, or with a broken loss, among the best", async () => {
    expect(await keptSteps({ keepLast: 1, keepBest: 2 }, [Number.NaN, null, 5, null])).toEqual([3, 4]);
  });

  it("prefer the newer of two that are equally good", async () => {
    expect(await keptSteps({ keepLast: 1, keepBest: 1 }, [1, 1, 1, 2])).toEqual([3, 4]);
  });

  it("are the milestones, for good", async () => {
    expect(await keptSteps({ keepLast: 1, keepEvery: 3 }, new Array(8).fill(null))).toEqual([3, 6, 8]);
  });
});

it("whatever is asked for: the pointed-to one, other runs, and each rule's own are never removed", () => {
  const checkpoint = fc.record({
    runId: fc.constantFrom("mine", "mine", "other"),
    step: fc.nat(12),
    validationLoss: fc.option(fc.nat(9), { nil: null }),
  });
  const policy = fc.record({
    keepLast: fc.option(fc.integer({ min: 1, max: 5 }), { nil: null }),
    keepBest: fc.nat(3),
    keepEvery: fc.option(fc.integer({ min: 1, max: 5 }), { nil: null }),
  });
  fc.assert(
    fc.property(fc.array(checkpoint, { maxLength: 14 }), policy, fc.nat(), (list, rule, pick) => {
      const all = list.map((item, index) => ({ ...item, name: `c${index}`, sequence: index + 1 }));
      const pointedTo = all[pick % Math.max(1, all.length)]?.name ?? "none";
      const removed = new Set(
        selectForRemoval(all, { ...rule, runId: "mine", pointedTo, damaged: new Set() }),
      );
      const kept = all.filter(({ name }) => !removed.has(name));
      expect(removed).not.toContain(pointedTo);
      expect(all.filter(({ runId, name }) => runId === "other" && removed.has(name))).toEqual([]);
      const mine = all.filter(({ runId }) => runId === "mine");
      // The latest save of each step is the one that counts.
      const current = mine.filter(({ step }, i) => !mine.slice(i + 1).some((later) => later.step === step));
      const newest = current.slice(-(rule.keepLast ?? Number.POSITIVE_INFINITY));
      expect(newest.every((item) => kept.includes(item))).toBe(true);
      const isMilestone = ({ step }: { step: number }) =>
        rule.keepEvery !== null && step > 0 && step % rule.keepEvery === 0;
      expect(current.filter(isMilestone).every((item) => kept.includes(item))).toBe(true);
      const losses = current.flatMap(({ validationLoss }) => validationLoss ?? []).sort((a, b) => a - b);
      for (const loss of losses.slice(0, rule.keepBest))
        expect(kept.some(({ validationLoss, runId }) => runId === "mine" && validationLoss === loss)).toBe(
          true,
        );
      // And nothing stays for no reason.
      const most = newest.length + rule.keepBest + current.filter(isMilestone).length + 1;
      expect(kept.filter(({ runId }) => runId === "mine").length).toBeLessThanOrEqual(most);
    }),
    { seed: 3, numRuns: 500 },
  );
});

it("a run records its validation losses and saves its milestones", async () => {
  const outputDir = temporaryFolder();
  const events = recordEvents();
  await trainFromConfig(
    tinyConfig(outputDir, {
      run: { max_steps: 9 },
      model: { vocab_size: 256 },
      data: { text_path: bookFile, validation_fraction: 0.9999 },
      optimizer: { lr: 0.05 },
      evaluation: { every_steps: 2, max_batches: 1 },
      checkpoint: { every_steps: 2, keep_last: 1, keep_best: 1, keep_every: 3 },
    }),
    { hooks: [events.hook] },
  );
  expect(events.of("checkpoint").map(({ step }) => step)).toEqual([2, 3, 4, 6, 8, 9]);
  const store = new CheckpointStore({ directory: join(outputDir, "checkpoints"), keepLast: 1, runId: "x" });
  const losses = new Map((await store.list()).map(({ step, validationLoss }) => [step, validationLoss]));
  const evaluations = new Map(events.of("evaluation").map(({ step, loss }) => [step, loss]));
  const best = [...evaluations].sort(([, a], [, b]) => a - b)[0]![0];
  expect([...losses.keys()]).toEqual([...new Set([3, 6, 9, best])].sort((a, b) => a - b));
  for (const [step, loss] of losses) expect([step, loss]).toEqual([step, evaluations.get(step) ?? null]);
  expect((await readdir(store.directory)).filter((name) => name.startsWith("."))).toEqual([]);
});
