import { existsSync } from "node:fs";
import { mkdir, readdir, readlink, symlink, truncate } from "node:fs/promises";
import { join } from "node:path";
import fc from "fast-check";
import { describe, expect, it, onTestFinished } from "vitest";
import { buildDataloader, type DataOptions, type Tokenizer } from "../../src/data/index.js";
import { ConfigError, DataError } from "../../src/util/errors.js";
import { bytesOf, letters, rowsOf, samplesOf, take, temporaryFolder, temporaryText } from "./helpers.js";

const base = { vocabSize: 256, blockSize: 4, microBatchSize: 1 };

async function build(content: string | Uint8Array, options: Partial<DataOptions> = {}) {
  const config = { ...base, textPath: await temporaryText(content), ...options };
  const built = await buildDataloader({ config });
  onTestFinished(() => built.train.close());
  return built;
}

async function inputTexts(content: string, options: Partial<DataOptions>): Promise<string[]> {
  const { train, tokenizer } = await build(content, options);
  const batches = await take(train, train.batchesPerEpoch);
  return batches.flatMap((batch) => rowsOf(batch, "input_ids")!.map((row) => tokenizer.decode(row)));
}

async function failure(options: Partial<DataOptions>, tokenizer?: Tokenizer): Promise<DataError> {
  try {
    await buildDataloader({ config: { ...base, ...options }, tokenizer });
  } catch (error) {
    expect(error).toBeInstanceOf(DataError);
    return error as DataError;
  }
  throw new Error("expected a failure");
}

describe("text files", () => {
  it("are cut with one shared id, so that no transition is lost", async () => {
    const { train } = await build(letters);
    expect(train.batchesPerEpoch).toBe(6);
    const batches = await take(train, 6);
    expect(batches.flatMap((batch) => rowsOf(batch, "labels")).flat()).toEqual(bytesOf(letters.slice(1, 25)));
    expect(batches[1]).toEqual({
      batch: {
        input_ids: { dtype: "int32", shape: [1, 4], data: Int32Array.from(bytesOf("efgh")) },
        labels: { dtype: "int32", shape: [1, 4], data: Int32Array.from(bytesOf("fghi")) },
      },
      samples: 1,
      tokens: 4,
      targetTokens: 4,
      epoch: 0,
    });
  });

  it("keep the short last sample, padded and masked, without dropLast", async () => {
    const { train } = await build(letters, { dropLast: false, microBatchSize: 2 });
    const last = (await take(train, 4))[3]!;
    expect(last).toEqual({
      batch: {
        input_ids: { dtype: "int32", shape: [1, 1], data: Int32Array.from(bytesOf("y")) },
        labels: { dtype: "int32", shape: [1, 1], data: Int32Array.from(bytesOf("z")) },
      },
      samples: 1,
      tokens: 1,
      targetTokens: 1,
      epoch: 0,
    });

    const padded = await build(letters, { dropLast: false, microBatchSize: 7 });
    const loaded = await padded.train.next();
    expect(rowsOf(loaded, "input_ids")![6]).toEqual([...bytesOf("y"), 0, 0, 0]);
    expect(rowsOf(loaded, "labels")![6]).toEqual([...bytesOf("z"), -100, -100, -100]);
    expect(rowsOf(loaded, "attention_mask")!.slice(5)).toEqual([
      [1, 1, 1, 1],
      [1, 0, 0, 0],
    ]);
    expect(loaded.batch.attention_mask!.dtype).toBe("bool");
    expect([loaded.samples, loaded.tokens, loaded.targetTokens]).toEqual([7, 25, 25]);
  });

  it("can be cut as the Python system does, modulo a small vocabulary", async () => {
    const compat = { textStride: true, byteModulo: true };
    const { train } = await build(letters, { vocabSize: 32, compat });
    expect(train.batchesPerEpoch).toBe(5);
    const first = await train.next();
    expect(rowsOf(first, "input_ids")).toEqual([[1, 2, 3, 4]]);
    expect(rowsOf(first, "labels")).toEqual([[2, 3, 4, 5]]);
    // The single left-over id is dropped; two or more make a short sample even with dropLast.
    const texts = (size: number) => inputTexts(letters.slice(0, size), { compat: { textStride: true } });
    expect(await texts(26)).toEqual(["abcd", "fghi", "klmn", "pqrs", "uvwx"]);
    expect(await texts(12)).toEqual(["abcd", "fghi", "k"]);
    expect(await texts(3)).toEqual(["ab"]);
  });

  it("are read byte by byte, whatever the bytes", async () => {
    const bytes = Uint8Array.of(0xef, 0xbb, 0xbf, 0x0d, 0x0a, 0x0d, 0xff, 0x00, 0xc3);
    const { train } = await build(bytes, { blockSize: 8 });
    const loaded = await train.next();
    expect(rowsOf(loaded, "input_ids")).toEqual([[...bytes.subarray(0, 8)]]);
    expect(rowsOf(loaded, "labels")).toEqual([[...bytes.subarray(1)]]);
  });

  it("give one sample for exactly block + 1 bytes, and the same one for a byte more", async () => {
    expect(await inputTexts("abcde", {})).toEqual(["abcd"]);
    expect(await inputTexts("abcdef", {})).toEqual(["abcd"]);
    expect(await inputTexts("abcdef", { dropLast: false })).toEqual(["abcd", "e"]);
  });

  it("too large for memory give the same batches, position by position", async () => {
    const content = letters.repeat(50);
    const options = {
      shuffle: true,
      dropLast: false,
      validationFraction: 0.1,
      microBatchSize: 3,
      numWorkers: 2,
    };
    const inMemory = await build(content, options);
    const ranged = await build(content, { ...options, textMemoryLimitBytes: 100 });
    expect(await take(ranged.train, 250)).toEqual(await take(inMemory.train, 250));
    expect(await samplesOf(ranged.validation!)).toEqual(await samplesOf(inMemory.validation!));
    await ranged.train.close();
    await ranged.train.close();
  });

  it("are told apart by a fingerprint of their content, not of their path", async () => {
    const options = { shuffle: true, seed: 3 };
    const fingerprint = async (content: string, more: Partial<DataOptions> = {}) =>
      (await build(content, { ...options, ...more })).fingerprint;
    expect(await fingerprint("abcdef")).toEqual(await fingerprint("abcdef"));
    expect(await fingerprint("abcdef")).not.toEqual(await fingerprint("abcdeg"));
    expect(await fingerprint("abcdef")).not.toEqual(await fingerprint("abcdef", { seed: 4 }));
    const ranged = { textMemoryLimitBytes: 1 };
    expect(await fingerprint("abcdef", ranged)).not.toEqual(await fingerprint("abcdeg", ranged));
    expect(await fingerprint("abcdef")).toEqual({
      source: {
        kind: "text",
        sizeBytes: 6,
        sha256: "bef57ec7f53a6d40beb640a780a639c83bc29ac8a9816f1fc6c5c6dcd93c4721",
        start: 0,
        end: 6,
        blockSize: 4,
        layout: "shared",
        samples: 1,
      },
      order: { shuffle: true, seed: 3 },
      microBatchSize: 1,
      dropLast: true,
    });
  });
});

describe("the held-out tail", () => {
  it("has each of its bytes as a label exactly once, and training sees none of them", async () => {
    const cases = fc.record({
      size: fc.integer({ min: 20, max: 400 }),
      blockSize: fc.integer({ min: 1, max: 9 }),
      fraction: fc.double({ min: 0.001, max: 0.5, noNaN: true }),
      dropLast: fc.boolean(),
      textStride: fc.boolean(),
    });
    const content = letters.repeat(16);
    const property = fc.asyncProperty(cases, async ({ size, blockSize, fraction, dropLast, textStride }) => {
      const text = content.slice(0, size);
      const { train, validation } = await build(text, {
        blockSize,
        dropLast,
        validationFraction: fraction,
        compat: { textStride },
      });
      const split = size - Math.ceil(size * fraction);
      const held = await samplesOf(validation!);
      expect(held.flatMap((sample) => sample.labels)).toEqual(bytesOf(text.slice(split)));
      expect(held.flatMap((sample) => sample.inputIds)).toEqual(bytesOf(text.slice(split - 1, -1)));

      const trained = await take(train, train.batchesPerEpoch);
      const labels = trained.flatMap((batch) => rowsOf(batch, "labels")!.flat());
      if (!textStride) expect(labels).toEqual(bytesOf(text.slice(1, 1 + labels.length)));
      if (!textStride && !dropLast) expect(labels.length).toBe(split - 1);
      expect(labels.length).toBeLessThan(split);
    });
    await fc.assert(property, { seed: 4, numRuns: 40 });
  });

  it("is rounded up, without rounding noise", async () => {
    const heldOut = async (size: number, validationFraction: number) => {
      const { validation } = await build("x".repeat(size), { validationFraction });
      return (await samplesOf(validation!)).flatMap((sample) => sample.labels).length;
    };
    expect(await heldOut(100, 0.07)).toBe(7);
    expect(await heldOut(101, 0.07)).toBe(8);
    expect(await heldOut(10, 1e-6)).toBe(1);
  });

  it("does not exist without a fraction", async () => {
    expect((await build(letters)).validation).toBeUndefined();
  });
});

describe("text that cannot be used", () => {
  it("is refused when the path is wrong", async () => {
    const folder = await temporaryFolder();
    const missing = join(folder, "no.txt");
    const error = await failure({ textPath: missing });
    expect(error.message).toBe(
      `data.text_path "${missing}" does not exist (looked for ${missing}). ` +
        "Relative paths start at the working directory.",
    );
    expect([error.code, error.exitCode]).toEqual(["data.not_found", 3]);

    const below = await failure({ textPath: join(await temporaryText("x"), "below.txt") });
    expect(below.code).toBe("data.not_found");

    await mkdir(join(folder, "sub"));
    const directory = await failure({ textPath: join(folder, "sub") });
    expect(directory.message).toContain("is a folder. Name one text file");

    const loop = join(folder, "loop");
    await symlink(loop, loop);
    const unreadable = await failure({ textPath: loop });
    expect(unreadable.code).toBe("data.unreadable");
    expect(unreadable.message).toContain(`data.text_path "${loop}" cannot be opened: ELOOP`);
  });

  it("is refused when it is empty or shorter than one block", async () => {
    const path = await temporaryText("");
    expect((await failure({ textPath: path })).message).toBe(
      `data.text_path "${path}" is empty (0 bytes). Name a file with text in it.`,
    );

    const short = await temporaryText("abcd");
    expect((await failure({ textPath: short })).message).toBe(
      `data.text_path "${short}" is shorter than one block: 4 training tokens, but a sample of ` +
        "data.block_size 4 needs 5. To go on, set data.block_size to at most 3, or use a longer text.",
    );
    expect((await failure({ textPath: short, dropLast: false })).code).toBe("data.too_short");

    const one = await temporaryText("x");
    const oneByte = await failure({ textPath: one, compat: { textStride: true } });
    expect(oneByte.message).toContain("1 training tokens, but");
    expect(oneByte.message).toContain("needs 2. To go on, use a longer text.");

    const six = await temporaryText("abcdef");
    expect((await failure({ textPath: six, validationFraction: 0.5 })).message).toContain(
      "3 training tokens (3 of 6 held out for validation), but a sample of data.block_size 4 needs 5. " +
        "To go on, set data.block_size to at most 2, or lower the validation fraction, or use a longer text.",
    );
  });

  it("is refused when an epoch would have no batch", async () => {
    const path = await temporaryText(letters);
    expect((await failure({ textPath: path, microBatchSize: 7 })).message).toBe(
      "An epoch has no full batch: 6 samples for data.micro_batch_size 7 with data.drop_last true. " +
        "Set data.micro_batch_size to at most 6, or data.drop_last to false.",
    );
  });

  it("is refused when a byte has no id, wherever it is", async () => {
    const path = await temporaryText("The caf\u00e9");
    const error = await failure({ textPath: path, vocabSize: 128 });
    expect(error.message).toBe(
      `The vocabulary is too small for the tokenizer: data.text_path "${path}" has byte 195 (0xc3) at offset 7, ` +
        "but the largest id of a vocabulary of 128 is 127. " +
        "Set model.vocab_size to 256 or more, so that each byte has an id of its own.",
    );
    expect(error.code).toBe("data.vocabulary_too_small");

    const far = new Uint8Array(2 ** 20 + 50);
    far[2 ** 20 + 20] = 64;
    const farPath = await temporaryText(far);
    for (const textMemoryLimitBytes of [2 ** 30, 1000]) {
      const late = await failure({ textPath: farPath, vocabSize: 64, textMemoryLimitBytes });
      expect(late.details).toEqual({ id: 64, offset: 2 ** 20 + 20, vocabSize: 64 });
    }
    const { train } = await build(letters, { vocabSize: 123 });
    expect(train.batchesPerEpoch).toBe(6);
  });

  it.skipIf(!existsSync("/proc/self/fd"))("leaves no file open, nor does a closed loader", async () => {
    const textPath = await temporaryText(letters);
    const openFiles = async () => {
      const links = (await readdir("/proc/self/fd")).map((fd) =>
        readlink(`/proc/self/fd/${fd}`).catch(() => ""),
      );
      return (await Promise.all(links)).filter((target) => target === textPath).length;
    };
    const config = { ...base, textPath, textMemoryLimitBytes: 10 };
    await failure({ ...config, blockSize: 26 });
    await failure({ ...config, vocabSize: 100 });
    await failure({ ...config, microBatchSize: 100 });
    expect(await openFiles()).toBe(0);

    const { train } = await buildDataloader({ config });
    expect(await openFiles()).toBe(1);
    await train.close();
    expect(await openFiles()).toBe(0);
  });

  it("is reported at the batch that misses it when the file shrinks", async () => {
    const path = await temporaryText(letters);
    const config = { ...base, textPath: path, textMemoryLimitBytes: 10 };
    const { train } = await buildDataloader({ config });
    await train.next();
    await truncate(path, 14);
    await take(train, 2);
    await expect(train.next()).rejects.toThrow(
      `"${path}" became shorter while it was read: nothing at byte 14`,
    );
    expect(train.position()).toEqual({ epoch: 0, position: 3 });
    await train.close();
  });
});

describe("options", () => {
  it.each([
    [{ blockSize: 0 }, "data.block_size must be an integer of at least 1, but is 0."],
    [{ microBatchSize: 1.5 }, "data.micro_batch_size must be an integer of at least 1, but is 1.5."],
    [{ validationFraction: 1 }, "data.validation_fraction must be at least 0 and below 1, but is 1."],
    [{ seed: 2 ** 60 }, "data.seed must be a safe integer"],
    [
      { synthetic: false },
      "data.synthetic is false, and neither data.text_path, data.sources nor a dataset is given",
    ],
  ])("%j is refused", async (options, message) => {
    const building = buildDataloader({ config: { ...base, ...options } });
    await expect(building).rejects.toBeInstanceOf(ConfigError);
    await expect(building).rejects.toThrow(message);
  });
});

/** One id per Unicode character, as a stand-in for tokenizers whose ids are not bytes. */
function characterTokenizer(vocabSize: number): Tokenizer {
  const encode = (text: string) => Int32Array.from([...text], (character) => character.codePointAt(0)!);
  const decode = (ids: ArrayLike<number>) => Array.from(ids, (id) => String.fromCodePoint(id)).join("");
  return { vocabSize, encode, decode, decoder: () => ({ push: (id) => decode([id]), end: () => "" }) };
}

describe("a tokenizer of one's own", () => {
  it("encodes the whole text, and the tail starts at a character", async () => {
    const textPath = await temporaryText("ééééé€€€€€");
    const tokenizer = characterTokenizer(9000);
    // 25 bytes: 40 % are 10, the split at byte 15 falls into the second euro sign, which starts at 13.
    const config = { ...base, vocabSize: 9000, textPath, validationFraction: 0.4 };
    const built = await buildDataloader({ config, tokenizer });
    expect(built.tokenizer).toBe(tokenizer);
    expect(rowsOf(await built.train.next(), "labels")).toEqual([[233, 233, 233, 233]]);
    const held = await samplesOf(built.validation!);
    expect(held.map((sample) => tokenizer.decode(sample.labels))).toEqual(["€€€€"]);
  });

  it("must fit the vocabulary, in what it declares and in what it gives", async () => {
    const textPath = await temporaryText("ab€cdef");
    const declared = await failure({ textPath, vocabSize: 300 }, characterTokenizer(9000));
    expect(declared.message).toContain(
      "it has 9000 ids, the model 300. Set model.vocab_size to at least 9000.",
    );
    const given = await failure({ textPath, vocabSize: 300 }, characterTokenizer(300));
    expect(given.message).toContain("The tokenizer gave id 8364 for token 2");
  });

  it("needs UTF-8, and a text that fits in memory", async () => {
    const textPath = await temporaryText(Uint8Array.of(0x61, 0xff, 0x62, 0x63, 0x64, 0x65));
    const tokenizer = characterTokenizer(200);
    expect((await failure({ textPath }, tokenizer)).code).toBe("data.invalid_utf8");
    const large = await failure({ textPath, textMemoryLimitBytes: 3 }, tokenizer);
    expect(large.message).toContain("has 6 bytes. With a tokenizer other than bytes");
  });
});
