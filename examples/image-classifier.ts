// A small convolutional network learns which of four strokes an image shows. Shows convolutions, pooling, batch
// normalisation with its running statistics, samples of one's own put together key by key, and a model that gives
// logits and leaves the loss to the trainer.
// Run it with: npx tsx examples/image-classifier.ts

import { pathToFileURL } from "node:url";
import { trainFromConfig } from "speedtronic";
import { collateRecords, createDataLoader, type Dataset } from "speedtronic/data";
import {
  BatchNorm,
  Conv2d,
  initialize,
  Linear,
  MaxPool2d,
  type ModelInputs,
  type ModelOutput,
  Module,
  Sequential,
  type TrainableModel,
} from "speedtronic/nn";
import { argmax, cast, equal, mean, relu, type Tensor, type TensorData } from "speedtronic/tensor";

const size = 8;
const classes = 4;

/** image: float32 [N, 1, 8, 8]; labels: int32 [N]. */
export class ImageClassifier extends Module implements TrainableModel {
  readonly features: Sequential;
  readonly head: Linear;

  constructor() {
    super();
    this.features = new Sequential(
      new Conv2d(1, 8, 3, { padding: 1, bias: false }),
      new BatchNorm(8),
      relu,
      new MaxPool2d(2),
      new Conv2d(8, 16, 3, { padding: 1, bias: false }),
      new BatchNorm(16),
      relu,
    );
    this.head = new Linear(16, classes);
  }

  forward({ image, labels }: ModelInputs): ModelOutput & { accuracy?: Tensor } {
    const logits = this.head.forward(mean(this.features.forward(image!), { axis: [2, 3] }));
    if (!labels) return { logits };
    // Whatever else is a number goes into the metrics under its name.
    return { logits, accuracy: mean(cast(equal(argmax(logits, -1), labels), "float32")) };
  }
}

/** A stroke on a noisy ground: across, down, or along one of the diagonals. */
export class Strokes implements Dataset<{ image: TensorData; labels: TensorData }> {
  constructor(readonly length: number) {}

  get(index: number): { image: TensorData; labels: TensorData } {
    const label = index % classes;
    const at = 1 + (Math.floor(index / classes) % (size - 2));
    const pixels = Float32Array.from(
      { length: size * size },
      (_, i) => 0.2 * Math.sin(7.3 * i + 2.1 * index),
    );
    for (let i = 0; i < size; i++) {
      const [row, column] = [
        [at, i],
        [i, at],
        [i, (i + at) % size],
        [i, (2 * size - i - at) % size],
      ][label] as [number, number];
      pixels[row * size + column] = 1;
    }
    return {
      image: { dtype: "float32", shape: [1, size, size], data: pixels },
      labels: { dtype: "int32", shape: [], data: Int32Array.of(label) },
    };
  }

  describe(): Record<string, unknown> {
    return { kind: "strokes", length: this.length, size };
  }
}

export interface ImageResult {
  readonly loss: number;
  /** Share of the last batch that was classified correctly. */
  readonly accuracy: number;
  readonly model: ImageClassifier;
}

export async function main({ steps = 80 }: { steps?: number } = {}): Promise<ImageResult> {
  const model = new ImageClassifier();
  initialize(model, 1);
  const last = { loss: Number.NaN, accuracy: Number.NaN };
  const loader = createDataLoader({
    dataset: new Strokes(192),
    batchSize: 32,
    collate: collateRecords,
    shuffle: true,
    seed: 1,
  });
  await trainFromConfig(
    {
      run: { max_steps: steps },
      optimizer: { lr: 1e-2, weight_decay: 0 },
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
  return { ...last, model };
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href) {
  const { loss, accuracy } = await main();
  console.log(`loss ${loss.toFixed(3)}, accuracy ${(100 * accuracy).toFixed(0)} %`);
}
