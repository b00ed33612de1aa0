import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  checkInputNames,
  Embedding,
  Generator,
  generate,
  generateText,
  initialize,
  type LanguageModel,
  Linear,
  type ModelInputs,
  Module,
  sampleToken,
  windowStart,
} from "../../src/nn/index.js";
import { type Backend, referenceBackend } from "../../src/tensor/index.js";
import { ConfigError, ModelError } from "../../src/util/errors.js";
import { int32, largestDifference, tinyTransformer, valuesOf } from "./helpers.js";

const backend = referenceBackend;

/** Spread-out logits, so that greedy choices do not hang on rounding. */
function livelyTransformer(options: Parameters<typeof tinyTransformer>[0] = {}) {
  const model = tinyTransformer({ vocabSize: 11, ...options });
  for (const parameter of model.namedParameters().values())
    if (parameter.rank === 2) for (let i = 0; i < parameter.data.length; i++) parameter.data[i]! *= 20;
  return model;
}

/** A model without a cached path: predicts from the present token alone. */
class Bigram extends Module implements LanguageModel {
  readonly vocabSize = 5;
  readonly blockSize = 4;
  readonly table = new Embedding(5, 5);
  readonly unused = new Linear(3, 3);
  forward(inputs: ModelInputs) {
    checkInputNames("Bigram", inputs, { required: ["input_ids"] });
    return { logits: this.table.forward(inputs.input_ids!) };
  }
}

describe("windowStart", () => {
  it("sees all within the context, then keeps the last half and grows again", () => {
    expect(Array.from({ length: 19 }, (_, n) => windowStart(n, 8))).toEqual([
      0, 0, 0, 0, 0, 0, 0, 0, 0, 5, 5, 5, 5, 5, 10, 10, 10, 10, 10,
    ]);
    expect([1, 2, 3].map((n) => windowStart(n, 1))).toEqual([0, 1, 2]);
  });

  it("always leaves between half and all of the context, and never moves back", () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 300 }), fc.integer({ min: 1, max: 40 }), (length, blockSize) => {
        const seen = length - windowStart(length, blockSize);
        const least = Math.min(length, Math.max(1, Math.floor(blockSize / 2)));
        return (
          seen >= least &&
          seen <= blockSize &&
          windowStart(length + 1, blockSize) >= windowStart(length, blockSize)
        );
      }),
      { seed: 1 },
    );
  });
});

describe("sampleToken", () => {
  const logits = [1, 3, -1, 3, 2];

  it("takes the likeliest token, the first at a tie, at temperature 0 or k = 1", () => {
    expect(sampleToken(logits, 0, { temperature: 0 })).toBe(1);
    expect(sampleToken(logits, 9, { temperature: 2, topK: 1, seed: 4 })).toBe(1);
  });

  it("draws by the softmax of logits / temperature, within the k likeliest", () => {
    const shares = (options: { temperature: number; topK?: number }) => {
      const counts = new Array<number>(logits.length).fill(0);
      const draws = 20000;
      for (let index = 0; index < draws; index++)
        counts[sampleToken(logits, index, { ...options, seed: 5 })]! += 1 / draws;
      return counts;
    };
    const softmax = (ids: number[], temperature: number) => {
      const weights = logits.map((x, id) => (ids.includes(id) ? Math.exp(x / temperature) : 0));
      const total = weights.reduce((a, b) => a + b, 0);
      return weights.map((w) => w / total);
    };
    expect(largestDifference(shares({ temperature: 2 }), softmax([0, 1, 2, 3, 4], 2))).toBeLessThan(0.012);
    expect(largestDifference(shares({ temperature: 1, topK: 3 }), softmax([1, 3, 4], 1))).toBeLessThan(0.012);
    expect(largestDifference(shares({ temperature: 1e-9 }), [0, 0.5, 0, 0.5, 0])).toBeLessThan(0.012);
  });

  it("is a pure function of seed and place", () => {
    const flat = new Array<number>(1000).fill(0);
    const draw = (index: number, seed: number) => sampleToken(flat, index, { seed });
    expect(draw(3, 4)).toBe(draw(3, 4));
    expect(new Set([draw(3, 4), draw(4, 4), draw(3, 5), draw(3, 4 + 2 ** 32)]).size).toBe(4);
  });

  it("never chooses −∞, and refuses NaN and +∞", () => {
    const minus = Number.NEGATIVE_INFINITY;
    for (let index = 0; index < 50; index++) expect(sampleToken([minus, 0, minus], index)).toBe(1);
    expect(() => sampleToken([0, Number.NaN], 0)).toThrow(/the logit of id 1 is NaN/);
    expect(() => sampleToken([0, Number.POSITIVE_INFINITY], 0)).toThrow(ModelError);
    expect(() => sampleToken([minus, minus], 0)).toThrow(ModelError);
  });

  it.each([
    [{ temperature: -1 }],
    [{ temperature: Number.NaN }],
    [{ topK: 0 }],
    [{ topK: 1.5 }],
    [{ seed: 0.5 }],
  ])("refuses %o", (options) => {
    expect(() => sampleToken(logits, 0, options)).toThrow(ConfigError);
  });
});

describe("generate", () => {
  it.each([
    ["grouped heads, tied", {}],
    ["one key head per head, untied", { nHead: 4, nKvHead: 4, tieWeights: false }],
    ["odd context", { blockSize: 7 }],
    ["context of one", { blockSize: 1 }],
  ])("gives the same logits cached as anew at every place, past the context too: %s", async (_, options) => {
    const model = livelyTransformer(options);
    const seen = { cached: [] as Float32Array[], full: [] as Float32Array[] };
    const recording = (name: keyof typeof seen): Backend => ({
      name,
      async compile(graph) {
        const executable = await backend.compile(graph);
        return {
          close: () => executable.close(),
          async run(feeds) {
            const results = await executable.run(feeds);
            seen[name].push(results.logits!.data as Float32Array);
            return results;
          },
        };
      },
    });
    const run = (cached: boolean) =>
      generate({
        model,
        backend: recording(cached ? "cached" : "full"),
        ids: [1, 2, 3],
        maxNewTokens: 20,
        temperature: 1,
        seed: 3,
        cached,
      });
    expect(await run(true)).toEqual(await run(false));
    expect(seen.cached).toHaveLength(20);
    for (const [i, logits] of seen.cached.entries())
      expect(largestDifference(logits, seen.full[i]!)).toBeLessThan(1e-5);
  });

  it("predicts what the forward pass says", async () => {
    const model = livelyTransformer();
    const generator = new Generator({ model, backend });
    const found = await generator.logits([1, 4, 2]);
    const forward = valuesOf(model.forward({ input_ids: int32([[1, 4, 2]]) }).logits!);
    expect(largestDifference(found, forward.slice(22))).toBeLessThan(1e-5);
    const best = forward.slice(22).indexOf(Math.max(...forward.slice(22)));
    expect(await generator.generate({ ids: [1, 4, 2], maxNewTokens: 1, temperature: 0 })).toEqual(
      Int32Array.of(best),
    );
    await generator.close();
  });

  it("past the context sees the last half and then grows", async () => {
    const model = livelyTransformer();
    const generator = new Generator({ model, backend });
    const ids = [1, 2, 3, 4, 5, 6, 7, 8, 9];
    expect(await generator.logits(ids)).toEqual(await generator.logits(ids.slice(-4)));
    expect(await generator.logits([...ids, 10])).toEqual(await generator.logits([6, 7, 8, 9, 10]));
    await generator.close();
  });

  it("repeats for one seed, differs for another, and goes on from a longer prompt as it would have", async () => {
    const model = livelyTransformer();
    const generator = new Generator({ model, backend });
    const run = (ids: number[], maxNewTokens: number, seed: number) =>
      generator.generate({ ids, maxNewTokens, seed, temperature: 1.5, topK: 8 }).then((found) => [...found]);
    const whole = await run([1], 24, 6);
    expect(await run([1], 24, 6)).toEqual(whole);
    expect(await run([1], 24, 7)).not.toEqual(whole);
    for (const cut of [3, 8, 13])
      expect(await run([1, ...whole.slice(0, cut)], 24 - cut, 6)).toEqual(whole.slice(cut));
    await generator.close();
  });

  it("follows weights that change, and reports each token at once", async () => {
    const model = livelyTransformer();
    const generator = new Generator({ model, backend });
    const told: number[] = [];
    const before = await generator.generate({
      ids: [1],
      maxNewTokens: 12,
      temperature: 0,
      onToken: (id) => void told.push(id),
    });
    expect(told).toEqual([...before]);
    initialize(model, 99);
    const after = await generator.generate({ ids: [1], maxNewTokens: 12, temperature: 0 });
    expect(after).toEqual(
      await generate({ model, backend, ids: [1], maxNewTokens: 12, temperature: 0, cached: false }),
    );
    expect(after).not.toEqual(before);
    await generator.close();
  });

  it("works for a model without a cached path, and with weights that logits do not need", async () => {
    const model = new Bigram();
    for (let id = 0; id < 5; id++) model.table.weight.data[id * 5 + ((id + 2) % 5)] = 1;
    expect([...(await generate({ model, backend, ids: [0], maxNewTokens: 7, temperature: 0 }))]).toEqual([
      2, 4, 1, 3, 0, 2, 4,
    ]);
  });

  it("closes all that it compiled, and generates nothing when asked for nothing", async () => {
    let open = 0;
    const counting: Backend = {
      name: "counting",
      async compile(graph) {
        const executable = await backend.compile(graph);
        open++;
        return { run: (feeds) => executable.run(feeds), close: async () => void open-- };
      },
    };
    const generator = new Generator({ model: tinyTransformer(), backend: counting });
    expect(await generator.generate({ ids: [1], maxNewTokens: 0 })).toEqual(new Int32Array(0));
    expect(open).toBe(0);
    await generator.generate({ ids: [1], maxNewTokens: 2 });
    expect(open).toBe(2);
    await generator.close();
    expect(open).toBe(0);
  });

  it("stops at a signal", async () => {
    const controller = new AbortController();
    const told: number[] = [];
    const run = generate({
      model: tinyTransformer(),
      backend,
      ids: [1],
      maxNewTokens: 50,
      signal: controller.signal,
      onToken: (id) => {
        told.push(id);
        if (told.length === 3) controller.abort(new Error("enough"));
      },
    });
    await expect(run).rejects.toThrow("enough");
    expect(told).toHaveLength(3);
  });

  it("refuses prompts and options that make no sense", async () => {
    const model = tinyTransformer();
    const run = (options: object) => generate({ model, backend, ids: [1], maxNewTokens: 1, ...options });
    await expect(run({ ids: [] })).rejects.toThrow(/nothing to continue/);
    await expect(run({ ids: [1, 7] })).rejects.toThrow(
      /id 7 at position 1 is outside the model's vocabulary of 7/,
    );
    await expect(run({ maxNewTokens: -1 })).rejects.toThrow(
      /maxNewTokens must be an integer not below 0, got -1/,
    );
    await expect(run({ topK: 0 })).rejects.toThrow(ConfigError);
  });

  it("is an error after the generator was closed, also in the midst of a sequence", async () => {
    const closed = expect.objectContaining({
      code: "generate.closed",
      message: "this generator is closed: make a new one to generate again",
    });
    for (const model of [tinyTransformer(), new Bigram()]) {
      const generator = new Generator({ model, backend });
      const onToken = () => generator.close();
      await expect(generator.generate({ ids: [1], maxNewTokens: 3, onToken })).rejects.toThrow(closed);
      await expect(generator.generate({ ids: [1], maxNewTokens: 0 })).rejects.toThrow(closed);
      await expect(generator.logits([1])).rejects.toThrow(closed);
      await generator.close();
    }
  });
});

describe("generateText", () => {
  it("emits text as soon as characters are complete, and the rest at the end", async () => {
    // Ids are bytes modulo 5 here; two ids make one letter.
    const tokenizer = {
      encode: (text: string) => Int32Array.from(text, (c) => c.charCodeAt(0) % 5),
      decoder() {
        let held: number | undefined;
        return {
          push(id: number) {
            if (held === undefined) {
              held = id;
              return "";
            }
            const letter = `${held}${id};`;
            held = undefined;
            return letter;
          },
          end: () => (held === undefined ? "" : "?"),
        };
      },
    };
    const model = new Bigram();
    for (let id = 0; id < 5; id++) model.table.weight.data[id * 5 + ((id + 2) % 5)] = 1;
    const generator = new Generator({ model, backend });
    const pieces: string[] = [];
    const text = await generateText({
      generator,
      tokenizer,
      prompt: "x",
      maxNewTokens: 5,
      temperature: 0,
      onText: (piece) => void pieces.push(piece),
    });
    await generator.close();
    expect(pieces).toEqual(["24;", "13;", "?"]);
    expect(text).toBe("24;13;?");
  });
});
