// A classifier that has nothing to do with language: a small MLP learns which of two spirals a point lies on.
// Shows what a model, a stream of batches and a loss of one's own look like against the public API alone.
// Run it with: npx tsx examples/mlp-classifier.ts

import { pathToFileURL } from "node:url";
import { buildRuntime, Trainer } from "speedtronic";
import type { DataLoader, DataPosition, LoadedBatch } from "speedtronic/data";
import {
  checkInputNames,
  crossEntropy,
  initialize,
  Linear,
  type ModelInputs,
  type ModelOutput,
  Module,
  meanLoss,
  Sequential,
  type TrainableModel,
} from "speedtronic/nn";
import { argmax, cast, equal, mean, relu } from "speedtronic/tensor";

export interface ClassifierOptions {
  inputs: number;
  hidden: number;
  classes: number;
}

/** features: float32 [B, inputs]; labels: int32 [B]. Gives logits [B, classes], the loss and the accuracy. */
export class MlpClassifier extends Module implements TrainableModel {
  readonly layers: Sequential;

  constructor({ inputs, hidden, classes }: ClassifierOptions) {
    super();
    this.layers = new Sequential(
      new Linear(inputs, hidden),
      relu,
      new Linear(hidden, hidden),
      relu,
      new Linear(hidden, classes),
    );
  }

  forward(inputs: ModelInputs): ModelOutput {
    checkInputNames("MlpClassifier", inputs, { required: ["features"], optional: ["labels"] });
    const logits = this.layers.forward(inputs.features!);
    const { labels } = inputs;
    if (!labels) return { logits };
    const summed = crossEntropy(logits, labels);
    const accuracy = mean(cast(equal(argmax(logits, -1), labels), "float32"));
    return {
      logits,
      loss: meanLoss(summed),
      lossSum: summed.lossSum,
      tokenCount: summed.count,
      metrics: { accuracy },
    };
  }
}

export function buildMlpClassifier(options: Partial<ClassifierOptions> = {}): MlpClassifier {
  return new MlpClassifier({ inputs: 2, hidden: 32, classes: 2, ...options });
}

/** Point `index` of two interleaved spirals: even ones lie on the first, odd ones on the second. */
export function spiralPoint(index: number): { x: number; y: number; label: number } {
  const label = index % 2;
  // Golden-ratio steps spread any run of indices evenly along the spiral.
  const along = (index * 0.6180339887498949) % 1;
  const radius = 0.1 + 0.9 * along;
  const angle = 1.5 * Math.PI * along + label * Math.PI;
  return { x: radius * Math.cos(angle), y: radius * Math.sin(angle), label };
}

/** An endless stream of batches of spiral points, `samples` points an epoch. */
export class SpiralLoader implements DataLoader {
  readonly batchesPerEpoch: number;
  readonly #batchSize: number;
  #batch = 0;

  constructor({ samples = 512, batchSize = 64 }: { samples?: number; batchSize?: number } = {}) {
    if (samples % batchSize !== 0)
      throw new RangeError(`batches of ${batchSize} do not divide ${samples} samples`);
    this.#batchSize = batchSize;
    this.batchesPerEpoch = samples / batchSize;
  }

  async next(): Promise<LoadedBatch> {
    const size = this.#batchSize;
    const epoch = Math.floor(this.#batch / this.batchesPerEpoch);
    const first = (this.#batch % this.batchesPerEpoch) * size;
    this.#batch++;
    const features = new Float32Array(size * 2);
    const labels = new Int32Array(size);
    for (let row = 0; row < size; row++) {
      const { x, y, label } = spiralPoint(first + row);
      features.set([x, y], row * 2);
      labels[row] = label;
    }
    return {
      epoch,
      samples: size,
      tokens: size,
      targetTokens: size,
      batch: {
        features: { dtype: "float32", shape: [size, 2], data: features },
        labels: { dtype: "int32", shape: [size], data: labels },
      },
    };
  }

  position(): DataPosition {
    return {
      epoch: Math.floor(this.#batch / this.batchesPerEpoch),
      position: (this.#batch % this.batchesPerEpoch) * this.#batchSize,
    };
  }

  seek({ epoch, position }: DataPosition): void {
    this.#batch = epoch * this.batchesPerEpoch + position / this.#batchSize;
  }

  async close(): Promise<void> {}
}

export interface ClassifierResult {
  readonly loss: number;
  /** Share of the last batch that was classified correctly. */
  readonly accuracy: number;
}

/**
 * Trains for `steps` updates. The runtime brings what is the same for every model: the engine in its thread, the
 * logger, and their orderly end. The loop gets the batches above instead of token ids.
 */
export async function main({ steps = 400 }: { steps?: number } = {}): Promise<ClassifierResult> {
  const model = buildMlpClassifier();
  initialize(model, 1);
  const last = { loss: Number.NaN, accuracy: Number.NaN };
  const runtime = await buildRuntime(
    { optimizer: { weight_decay: 0 }, checkpoint: { enabled: false } },
    {
      model,
      hooks: [
        (event, payload) => {
          // A model's own metrics are further keys of the event.
          if (event === "train_step") Object.assign(last, payload);
        },
      ],
    },
  );
  try {
    const { engine, logger } = runtime;
    const trainer = new Trainer({
      model,
      engine,
      logger,
      loader: new SpiralLoader(),
      maxSteps: steps,
      lr: 0.01,
    });
    await trainer.fit();
    await trainer.close();
  } finally {
    await runtime.close();
  }
  return { loss: last.loss, accuracy: last.accuracy };
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href) {
  const { loss, accuracy } = await main();
  console.log(`loss ${loss.toFixed(4)}, ${(100 * accuracy).toFixed(1)} % of the points on the right spiral`);
}
