// A data set and a tokenizer of one's own: sums of two digits, where only the answer counts towards the loss.
// The same two objects can go to buildDataloader, for a loop of one's own, or to a whole run.
// Run it with: npx tsx examples/custom-dataset.ts

import { pathToFileURL } from "node:url";
import { buildDataloader, buildRuntime } from "speedtronic";
import type { DataPipeline, Dataset, Sample, Tokenizer } from "speedtronic/data";
import { Generator, generateText, type LanguageModel } from "speedtronic/nn";
import { referenceBackend } from "speedtronic/tensor";

/** One token per character of `0123456789+=`. */
export class DigitTokenizer implements Tokenizer {
  readonly #characters = "0123456789+=";
  readonly vocabSize = this.#characters.length;

  encode(text: string): Int32Array {
    return Int32Array.from(text, (character) => {
      const id = this.#characters.indexOf(character);
      if (id < 0) throw new RangeError(`"${character}" is none of ${this.#characters}`);
      return id;
    });
  }

  decode(ids: ArrayLike<number>): string {
    return Array.from(ids, (id) => this.#characters[id] ?? "").join("");
  }

  decoder() {
    return { push: (id: number) => this.decode([id]), end: () => "" };
  }
}

/** `3+4=07`, for all pairs of digits. */
export class SumDataset implements Dataset {
  readonly length = 100;
  readonly #tokenizer = new DigitTokenizer();

  get(index: number): Sample {
    const [a, b] = [Math.floor(index / 10), index % 10];
    const ids = this.#tokenizer.encode(`${a}+${b}=${String(a + b).padStart(2, "0")}`);
    const labels = ids.slice(1);
    // -100 takes a target out of the loss: there is nothing to learn from the question.
    labels.fill(-100, 0, 3);
    return { inputIds: ids.slice(0, -1), labels };
  }

  /** Goes into every checkpoint, so that a resume with other data is noticed. */
  describe(): Record<string, unknown> {
    return { kind: "sums", digits: 1 };
  }
}

/** The data alone: batches with a position that can be saved and restored. */
export function openSums(): Promise<DataPipeline> {
  return buildDataloader({
    config: { vocabSize: 12, blockSize: 5, microBatchSize: 25, shuffle: true, seed: 1 },
    dataset: new SumDataset(),
    tokenizer: new DigitTokenizer(),
  });
}

/** Trains for `steps` updates and then asks the model. */
export async function main({
  steps = 400,
}: {
  steps?: number;
} = {}): Promise<{ loss: number; answer: string }> {
  const tokenizer = new DigitTokenizer();
  const runtime = await buildRuntime(
    {
      run: { max_steps: steps },
      model: { vocab_size: tokenizer.vocabSize, max_seq_len: 8, n_layer: 2, n_head: 4, d_model: 64 },
      data: { micro_batch_size: 100, shuffle: true },
      optimizer: { lr: 3e-3 },
      scheduler: { warmup_steps: 20 },
      checkpoint: { enabled: false },
    },
    { dataset: new SumDataset(), tokenizer },
  );
  try {
    const { finalLoss } = await runtime.trainer.fit();
    const model = runtime.model as LanguageModel;
    const generator = new Generator({ model, backend: referenceBackend });
    const answer = await generateText({
      generator,
      tokenizer,
      prompt: "3+4=",
      maxNewTokens: 2,
      temperature: 0,
    });
    await generator.close();
    return { loss: finalLoss ?? Number.NaN, answer };
  } finally {
    await runtime.close();
  }
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href) {
  const { loss, answer } = await main();
  console.log(`loss ${loss.toFixed(4)}; 3+4=${answer}`);
}
