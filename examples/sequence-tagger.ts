// A recurrent network marks what stands inside brackets: one tag for each position of sequences of different lengths.
// Shows an LSTM that reads both ways, padding by rules, and labels that count for nothing where a row is padded.
// Run it with: npx tsx examples/sequence-tagger.ts

import { pathToFileURL } from "node:url";
import { trainFromConfig } from "speedtronic";
import { collateRecords, createDataLoader, type Dataset } from "speedtronic/data";
import {
  crossEntropy,
  Embedding,
  initialize,
  Linear,
  Lstm,
  type ModelInputs,
  type ModelOutput,
  Module,
  meanLoss,
  type TrainableModel,
} from "speedtronic/nn";
import {
  argmax,
  cast,
  div,
  equal,
  logicalAnd,
  notEqual,
  reshape,
  sum,
  type Tensor,
  transpose,
} from "speedtronic/tensor";

const [open, close, letters] = [1, 2, 6];
const tags = 2;

/** symbols, labels: int32 [B, T]; a label of −100 counts for nothing. */
export class Tagger extends Module implements TrainableModel {
  readonly embed: Embedding;
  readonly lstm: Lstm;
  readonly head: Linear;

  constructor(width = 16) {
    super();
    this.embed = new Embedding(3 + letters, width);
    this.lstm = new Lstm(width, width, { bidirectional: true });
    this.head = new Linear(2 * width, tags);
  }

  forward({ symbols, labels }: ModelInputs): ModelOutput & { accuracy?: Tensor } {
    // Time-major inside, as recurrent layers take it.
    const states = this.lstm.forward(this.embed.forward(transpose(symbols!)));
    const logits = transpose(this.head.forward(states), [1, 0, 2]);
    if (!labels) return { logits };
    const summed = crossEntropy(reshape(logits, [-1, tags]), reshape(labels, [-1]));
    const isReal = notEqual(labels, -100);
    const isRight = logicalAnd(isReal, equal(argmax(logits, -1), labels));
    return {
      logits,
      loss: meanLoss(summed),
      lossSum: summed.lossSum,
      tokenCount: summed.count,
      accuracy: div(sum(cast(isRight, "float32")), summed.count),
    };
  }
}

/** Letters with brackets among them, 6 to 13 symbols long; tag 1 is what stands inside. */
export class Brackets implements Dataset<{ symbols: Int32Array; labels: Int32Array }> {
  constructor(readonly length: number) {}

  get(index: number): { symbols: Int32Array; labels: Int32Array } {
    const count = 6 + (index % 8);
    const from = 1 + (index % (count - 3));
    const to = Math.min(count - 1, from + 2 + (index % 3));
    const symbols = Int32Array.from({ length: count }, (_, t) => {
      if (t === from) return open;
      return t === to ? close : 3 + ((index * 5 + t * t) % letters);
    });
    return { symbols, labels: symbols.map((_, t) => Number(t > from && t < to)) };
  }

  describe(): Record<string, unknown> {
    return { kind: "brackets", length: this.length };
  }
}

export interface TaggerResult {
  readonly loss: number;
  /** Share of the last batch's positions that were tagged correctly. */
  readonly accuracy: number;
}

export async function main({ steps = 60 }: { steps?: number } = {}): Promise<TaggerResult> {
  const model = new Tagger();
  initialize(model, 1);
  const last = { loss: Number.NaN, accuracy: Number.NaN };
  const loader = createDataLoader({
    dataset: new Brackets(256),
    batchSize: 32,
    // Labels are padded by what counts for nothing without being told.
    collate: (samples) => collateRecords(samples, { symbols: { how: "pad", value: 0 } }),
    shuffle: true,
    seed: 1,
  });
  await trainFromConfig(
    {
      run: { max_steps: steps },
      optimizer: { lr: 2e-2, weight_decay: 0 },
      scheduler: { warmup_steps: 5 },
      checkpoint: { enabled: false },
    },
    {
      model,
      loader,
      hooks: [
        (event, payload) => {
          if (event === "train_step") Object.assign(last, payload);
        },
      ],
    },
  );
  await loader.close();
  return last;
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href) {
  const { loss, accuracy } = await main();
  console.log(`loss ${loss.toFixed(3)}, accuracy ${(100 * accuracy).toFixed(0)} %`);
}
