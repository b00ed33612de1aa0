import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  buildDataloader,
  collateCausal,
  createDataLoader,
  type DataLoader,
  type DataLoaderOptions,
  type DataPosition,
  type LoadedBatch,
  type Sample,
} from "../../src/data/index.js";
import { DataError } from "../../src/util/errors.js";
import { numberedDataset, rowsOf, take } from "./helpers.js";

type Options = Partial<Omit<DataLoaderOptions<Sample>, "collate">>;

function load(samples: number, batchSize: number, options: Options = {}): DataLoader {
  return createDataLoader({
    dataset: numberedDataset(samples),
    batchSize,
    collate: collateCausal,
    ...options,
  });
}

const indicesOf = (batches: LoadedBatch[]) => batches.flatMap((batch) => rowsOf(batch, "input_ids")!.flat());

const shapes = {
  samples: fc.integer({ min: 1, max: 60 }),
  batchSize: fc.integer({ min: 1, max: 7 }),
  shuffle: fc.boolean(),
  dropLast: fc.boolean(),
  seed: fc.maxSafeInteger(),
};
const setups = fc
  .record(shapes)
  .filter(({ samples, batchSize, dropLast }) => !dropLast || samples >= batchSize);

describe("an epoch", () => {
  it("visits each sample exactly once, or all but the rest of a batch with dropLast", async () => {
    const property = fc.asyncProperty(setups, async ({ samples, batchSize, ...options }) => {
      const loader = load(samples, batchSize, options);
      for (let epoch = 0; epoch < 3; epoch++) {
        const batches = await take(loader, loader.batchesPerEpoch);
        expect(new Set(batches.map((batch) => batch.epoch))).toEqual(new Set([epoch]));
        const indices = indicesOf(batches);
        const expected = options.dropLast ? samples - (samples % batchSize) : samples;
        expect(indices.length).toBe(expected);
        expect(new Set(indices).size).toBe(expected);
        expect(indices.every((index) => index >= 0 && index < samples)).toBe(true);
        if (!options.shuffle) expect(indices).toEqual(indices.map((_, i) => i));
        expect(loader.position()).toEqual({ epoch: epoch + 1, position: 0 });
      }
    });
    await fc.assert(property, { seed: 5, numRuns: 200 });
  });

  it("is shuffled by seed and epoch alone, evenly", async () => {
    const epochs = async (seed: number, count: number) => {
      const loader = load(50, 50, { shuffle: true, seed });
      return (await take(loader, count)).map((batch) => indicesOf([batch]));
    };
    const [first, second] = await epochs(1, 2);
    expect(first).not.toEqual(second);
    expect(await epochs(1, 2)).toEqual([first, second]);
    const orders = [...(await epochs(1, 5)), ...(await epochs(2, 5)), ...(await epochs(2 ** 32 + 1, 5))];
    expect(new Set(orders.map(String)).size).toBe(15);

    // How often each sample comes first in 2,500 epochs: 50 times each, give or take five deviations.
    const firsts = new Map<number, number>();
    for (const order of await epochs(3, 2500)) firsts.set(order[0]!, (firsts.get(order[0]!) ?? 0) + 1);
    expect(firsts.size).toBe(50);
    for (const count of firsts.values()) expect(Math.abs(count - 50)).toBeLessThan(35);
  });

  it("keeps this order: a change of the shuffle would break the resume of older runs", async () => {
    expect(indicesOf(await take(load(10, 5, { shuffle: true, seed: 1234 }), 4))).toMatchInlineSnapshot(`
      [
        1,
        0,
        7,
        5,
        6,
        9,
        3,
        8,
        2,
        4,
        2,
        6,
        0,
        5,
        3,
        4,
        1,
        7,
        8,
        9,
      ]
    `);
  });

  it("can be billions of samples long", async () => {
    const indices = indicesOf(await take(load(2 ** 31 - 1, 100, { shuffle: true }), 3));
    expect(new Set(indices).size).toBe(300);
    expect(Math.max(...indices)).toBeGreaterThan(1e9);
    expect(Math.min(...indices)).toBeGreaterThanOrEqual(0);
  });

  it("must have a batch", () => {
    expect(() => load(0, 1, { dropLast: false })).toThrow("The dataset has no samples.");
    expect(() => load(3, 4)).toThrow("An epoch has no full batch: 3 samples for data.micro_batch_size 4");
    expect(load(3, 4, { dropLast: false }).batchesPerEpoch).toBe(1);
  });
});

describe("a loader that was interrupted", () => {
  it("equals the uninterrupted one after three stops, with and without prefetch", async () => {
    const runs = fc.record({
      setup: setups,
      prefetchBatches: fc.constantFrom(0, 0, 1, 3, 8),
      stops: fc.array(fc.nat({ max: 12 }), { minLength: 3, maxLength: 3 }),
    });
    const property = fc.asyncProperty(runs, async ({ setup, prefetchBatches, stops }) => {
      const { samples, batchSize, ...options } = setup;
      const total = stops.reduce((sum, count) => sum + count, 5);
      const whole = await take(load(samples, batchSize, options), total);

      const pieces: LoadedBatch[] = [];
      let saved: DataPosition = { epoch: 0, position: 0 };
      for (const count of [...stops, 5]) {
        const loader = load(samples, batchSize, { ...options, prefetchBatches });
        loader.seek(saved);
        pieces.push(...(await take(loader, count)));
        saved = JSON.parse(JSON.stringify(loader.position())) as DataPosition;
        await loader.close();
      }
      expect(pieces).toEqual(whole);
    });
    await fc.assert(property, { seed: 6, numRuns: 150 });
  });

  it("can be sent to and fro: what was prefetched is forgotten", async () => {
    const loader = load(20, 3, { shuffle: true, prefetchBatches: 4 });
    const positions = [loader.position()];
    const batches: LoadedBatch[] = [];
    for (let i = 0; i < 15; i++) {
      batches.push(await loader.next());
      positions.push(loader.position());
    }
    for (const i of [14, 0, 6, 5, 9]) {
      loader.seek(positions[i]!);
      expect(loader.position()).toEqual(positions[i]);
      expect(await loader.next()).toEqual(batches[i]);
    }
  });

  it("continues at any sample, also when the batch size changed", async () => {
    const loader = load(10, 4, { dropLast: false });
    loader.seek({ epoch: 2, position: 7 });
    expect(indicesOf(await take(loader, 2))).toEqual([7, 8, 9, 0, 1, 2, 3]);
    expect(loader.position()).toEqual({ epoch: 3, position: 4 });
    loader.seek({ epoch: 0, position: 10 });
    expect(loader.position()).toEqual({ epoch: 1, position: 0 });
  });

  it("refuses positions that do not exist", () => {
    const loader = load(10, 2);
    expect(() => loader.seek({ epoch: 0, position: 11 })).toThrow(
      "Cannot continue at epoch 0, sample 11: an epoch of this data has 10 samples.",
    );
    expect(() => loader.seek({ epoch: -1, position: 0 })).toThrow(DataError);
    expect(() => loader.seek({ epoch: 0, position: 0.5 })).toThrow(DataError);
  });
});

describe("prefetching", () => {
  const settle = () => new Promise((resolve) => setTimeout(resolve, 20));

  it("reads exactly as far ahead as it is told, and does not move the position", async () => {
    const read: number[] = [];
    const dataset = numberedDataset(100, (index) => void read.push(index));
    const loader = load(100, 2, { dataset, prefetchBatches: 3 });
    await settle();
    expect(read).toEqual([]);
    await loader.next();
    await settle();
    expect(read).toEqual([0, 1, 2, 3, 4, 5, 6, 7]);
    expect(loader.position()).toEqual({ epoch: 0, position: 2 });
    await loader.next();
    await settle();
    expect(read.length).toBe(10);
    await loader.close();
  });

  it("is off without workers, and workers × factor batches deep with them", async () => {
    for (const [options, batchesRead] of [
      [{ prefetchFactor: 4 }, 1],
      [{ numWorkers: 2 }, 5],
      [{ numWorkers: 2, prefetchFactor: 3 }, 7],
    ] as const) {
      let reads = 0;
      const dataset = numberedDataset(100, () => void reads++);
      const config = { vocabSize: 100, blockSize: 1, microBatchSize: 1, ...options };
      const { train } = await buildDataloader({ config, dataset });
      await train.next();
      await settle();
      expect(reads).toBe(batchesRead);
      await train.close();
    }
  });

  it.each([0, 4])(
    "shows an error at the batch it belongs to, and again until it is gone (%i ahead)",
    async (ahead) => {
      let isBroken = true;
      const dataset = numberedDataset(20, (index) => {
        if (index === 5 && isBroken) throw new DataError("sample 5 is broken", { code: "test.broken" });
      });
      const loader = load(20, 2, { dataset, prefetchBatches: ahead });
      expect(indicesOf(await take(loader, 2))).toEqual([0, 1, 2, 3]);
      await settle();
      await expect(loader.next()).rejects.toThrow("sample 5 is broken");
      await expect(loader.next()).rejects.toThrow("sample 5 is broken");
      expect(loader.position()).toEqual({ epoch: 0, position: 4 });
      isBroken = false;
      expect(indicesOf(await take(loader, 2))).toEqual([4, 5, 6, 7]);
      await loader.close();
    },
  );

  it("does not read what a seek made useless", async () => {
    const read: number[] = [];
    const dataset = numberedDataset(100, (index) => void read.push(index));
    const loader = load(100, 2, { dataset, prefetchBatches: 3 });
    await loader.next();
    loader.seek({ epoch: 0, position: 50 });
    await loader.next();
    await settle();
    expect(read).toEqual([0, 1, 50, 51, 52, 53, 54, 55, 56, 57]);
    await loader.close();
  });

  it("answers calls in order when nobody waits, and refuses to seek meanwhile", async () => {
    const loader = load(20, 2, { prefetchBatches: 2 });
    const pending = [loader.next(), loader.next(), loader.next()];
    expect(() => loader.seek({ epoch: 0, position: 0 })).toThrow(
      "seek() was called while a next() is pending",
    );
    expect(indicesOf(await Promise.all(pending))).toEqual([0, 1, 2, 3, 4, 5]);
    loader.seek({ epoch: 0, position: 0 });
  });
});

describe("closing", () => {
  it("waits for reads, closes once, and ends the stream", async () => {
    const events: string[] = [];
    let release = () => {};
    const gate = new Promise<void>((resolve) => {
      release = resolve;
    });
    let openReads = 0;
    const dataset = numberedDataset(50, async (index) => {
      if (index < 2) return;
      openReads++;
      await gate;
      openReads--;
    });
    const onClose = async () => void events.push(`closed with ${openReads} reads open`);
    const loader = load(50, 2, { dataset, prefetchBatches: 5, onClose });
    await loader.next();
    while (openReads === 0) await new Promise((resolve) => setImmediate(resolve));
    const closing = Promise.all([loader.close(), loader.close()]);
    setTimeout(release, 10);
    await closing;
    expect(events).toEqual(["closed with 0 reads open"]);
    await expect(loader.next()).rejects.toThrow("The data loader is closed.");
    expect(() => loader.seek({ epoch: 0, position: 0 })).toThrow("The data loader is closed.");
  });
});
