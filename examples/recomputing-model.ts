// The seam for recomputing activations: a model that offers setGradientCheckpointing is asked, before its graph is
// recorded, whether the run wants to trade time for memory. What it then does is its own affair; this one only
// remembers the answer.
//
// Run it in a clone with: npx tsx examples/recomputing-model.ts

import { pathToFileURL } from "node:url";
import { trainFromConfig } from "speedtronic";
import {
  crossEntropy,
  Embedding,
  initialize,
  Linear,
  type ModelInputs,
  type ModelOutput,
  Module,
  type TrainableModel,
} from "speedtronic/nn";
import { relu, reshape } from "speedtronic/tensor";

export class RecomputingModel extends Module implements TrainableModel {
  readonly embedding = new Embedding(256, 16);
  readonly hidden = new Linear(16, 16);
  readonly head = new Linear(16, 256);
  /** What the run asked for; undefined while it has not asked. */
  recomputes: boolean | undefined;

  setGradientCheckpointing(enabled: boolean): void {
    this.recomputes = enabled;
  }

  forward({ input_ids, labels }: ModelInputs): ModelOutput {
    const x = relu(this.hidden.forward(this.embedding.forward(input_ids!)));
    const logits = reshape(this.head.forward(x), [-1, 256]);
    const { lossSum, count } = crossEntropy(logits, reshape(labels!, [-1]));
    return { lossSum, tokenCount: count };
  }
}

export async function main(outputDir = "runs/recomputing"): Promise<RecomputingModel> {
  const model = new RecomputingModel();
  initialize(model, 1);
  await trainFromConfig(
    {
      run: { max_steps: 3, output_dir: outputDir },
      model: { vocab_size: 256, max_seq_len: 16 },
      data: { micro_batch_size: 2 },
      gradient_checkpointing: true,
    },
    { model },
  );
  return model;
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href)
  console.log("asked to recompute:", (await main()).recomputes);
