// Compiled graphs by shape: made once, bounded, removed from the engine when they go.

import { ModelError } from "speedtronic";
import { traceTraining } from "speedtronic/train";
import { describe, expect, it } from "vitest";
import { ProgramCache } from "../../src/train/programs.js";
import { engineFor, smallTransformer, tokens } from "./fixtures.js";

async function cacheOf(limit: number) {
  const model = smallTransformer();
  const engine = await engineFor(model);
  let traced = 0;
  const cache = new ProgramCache(
    engine,
    (types) => {
      traced += 1;
      return traceTraining(model, types);
    },
    limit,
  );
  const isAlive = async (id: number, columns: number) =>
    engine.evaluate(id, tokens(1, columns)).then(
      () => true,
      () => false,
    );
  return { engine, cache, isAlive, traced: () => traced };
}

describe("ProgramCache", () => {
  it("traces each shape once, whatever the values and the order of fields", async () => {
    const { engine, cache, traced } = await cacheOf(4);
    const { input_ids, labels } = tokens(1, 4) as { [name: string]: never };
    const programs = await Promise.all([
      cache.get(tokens(1, 4)),
      cache.get(tokens(1, 4, { salt: 3 })),
      cache.get({ labels: labels!, input_ids: input_ids! }),
      cache.get(tokens(1, 5)),
    ]);
    expect(programs.map(({ id }) => id)).toEqual([0, 0, 0, 1]);
    expect([traced(), programs.map(({ isRandom }) => isRandom)]).toEqual([2, [false, false, false, false]]);
    await engine.close();
  });

  it("keeps the most recently used up to its bound and removes the others from the engine", async () => {
    const { engine, cache, isAlive, traced } = await cacheOf(2);
    const [four, five] = [await cache.get(tokens(1, 4)), await cache.get(tokens(1, 5))];
    await cache.get(tokens(1, 4));
    const six = await cache.get(tokens(1, 6));
    expect([await isAlive(four.id, 4), await isAlive(five.id, 5), await isAlive(six.id, 6)]).toEqual([
      true,
      false,
      true,
    ]);
    expect((await cache.get(tokens(1, 5))).id).not.toBe(five.id);
    expect(await isAlive(four.id, 4)).toBe(false);
    expect(traced()).toBe(4);
    await engine.close();
  });

  it("does not keep what could not be traced", async () => {
    const { engine, cache, traced } = await cacheOf(2);
    const { labels, ...rest } = tokens(1, 4) as Record<string, ReturnType<typeof tokens>[string]>;
    const unlabelled = { ...rest, lables: labels! };
    for (let attempt = 1; attempt <= 2; attempt++) {
      await expect(cache.get(unlabelled)).rejects.toThrow(ModelError);
      expect(traced()).toBe(attempt);
    }
    expect((await cache.get(tokens(1, 4))).id).toBe(0);
    await engine.close();
  });

  it("removes all of them at its end", async () => {
    const { engine, cache, isAlive } = await cacheOf(3);
    const made = [await cache.get(tokens(1, 4)), await cache.get(tokens(1, 5))];
    await cache.close();
    expect(await Promise.all(made.map(({ id }, i) => isAlive(id, 4 + i)))).toEqual([false, false]);
    await engine.close();
  });
});
