// A transformer in the style of GPT-2, written against the public API alone: learned positions, LayerNorm with
// bias, GELU, one projection for queries, keys and values. Registered by name, so that a config can choose it.
// Dimension names: B batch, T positions, V vocabulary, D model width, H heads.
// Run it with: npx tsx examples/gpt2-style.ts

import { fileURLToPath, pathToFileURL } from "node:url";
import { type TrainResult, trainFromConfig } from "speedtronic";
import {
  checkInputNames,
  Dropout,
  Embedding,
  init,
  type LanguageModel,
  LayerNorm,
  Linear,
  type ModelInputs,
  type ModelOptions,
  type ModelOutput,
  Module,
  ModuleList,
  meanLoss,
  registerModel,
  resolveModelOptions,
} from "speedtronic/nn";
import {
  add,
  attention,
  gelu,
  iota,
  linearCrossEntropy,
  matmul,
  reshape,
  split,
  type Tensor,
  transpose,
} from "speedtronic/tensor";

const weightInit = init.normal({ std: 0.02 });
const biasInit = init.zeros();

class Attention extends Module {
  readonly c_attn: Linear;
  readonly c_proj: Linear;
  readonly #heads: number;

  constructor({ dModel, nHead }: ModelOptions) {
    super();
    this.c_attn = new Linear(dModel, 3 * dModel, { weightInit, biasInit });
    this.c_proj = new Linear(dModel, dModel, { weightInit, biasInit });
    this.#heads = nHead;
  }

  /** x: [T, B, D] */
  forward(x: Tensor, keyMask?: Tensor): Tensor {
    const [T, B, D] = x.shape as [number, number, number];
    const parts = split(this.c_attn.forward(x), 3, -1);
    const [query, key, value] = parts.map((part) => reshape(part, [T, B, this.#heads, D / this.#heads]));
    const mixed = attention(query!, key!, value!, keyMask ? { keyMask } : {});
    return this.c_proj.forward(reshape(mixed, [T, B, D]));
  }
}

class Mlp extends Module {
  readonly c_fc: Linear;
  readonly c_proj: Linear;

  constructor({ dModel, dFf }: ModelOptions) {
    super();
    const inner = dFf ?? 4 * dModel;
    this.c_fc = new Linear(dModel, inner, { weightInit, biasInit });
    this.c_proj = new Linear(inner, dModel, { weightInit, biasInit });
  }

  forward(x: Tensor): Tensor {
    return this.c_proj.forward(gelu(this.c_fc.forward(x), "tanh"));
  }
}

class Block extends Module {
  readonly ln_1: LayerNorm;
  readonly attn: Attention;
  readonly ln_2: LayerNorm;
  readonly mlp: Mlp;
  readonly #dropout: Dropout;

  constructor(options: ModelOptions) {
    super();
    this.ln_1 = new LayerNorm(options.dModel);
    this.attn = new Attention(options);
    this.ln_2 = new LayerNorm(options.dModel);
    this.mlp = new Mlp(options);
    this.#dropout = new Dropout(options.dropout);
  }

  forward(x: Tensor, keyMask?: Tensor): Tensor {
    const mixed = add(x, this.#dropout.forward(this.attn.forward(this.ln_1.forward(x), keyMask)));
    return add(mixed, this.#dropout.forward(this.mlp.forward(this.ln_2.forward(mixed))));
  }
}

class Trunk extends Module {
  readonly wte: Embedding;
  readonly wpe: Embedding;
  readonly h: ModuleList<Block>;
  readonly ln_f: LayerNorm;

  constructor(options: ModelOptions) {
    super();
    this.wte = new Embedding(options.vocabSize, options.dModel, { weightInit });
    this.wpe = new Embedding(options.blockSize, options.dModel, { weightInit });
    this.h = new ModuleList(Array.from({ length: options.nLayer }, () => new Block(options)));
    this.ln_f = new LayerNorm(options.dModel);
  }
}

/** input_ids, labels: int32 [B, T]; attention_mask: bool [B, T]. Logits: [B, T, V]; the head is the embedding. */
export class Gpt2Style extends Module implements LanguageModel {
  readonly transformer: Trunk;
  readonly vocabSize: number;
  readonly blockSize: number;
  readonly #dropout: Dropout;

  constructor(options: ModelOptions) {
    super();
    this.vocabSize = options.vocabSize;
    this.blockSize = options.blockSize;
    this.transformer = new Trunk(options);
    this.#dropout = new Dropout(options.dropout);
  }

  forward(inputs: ModelInputs): ModelOutput {
    checkInputNames("Gpt2Style", inputs, { required: ["input_ids"], optional: ["labels", "attention_mask"] });
    const { wte, wpe, h, ln_f } = this.transformer;
    const ids = inputs.input_ids!;
    const [B, T] = ids.shape as [number, number];

    // Time-major from here on, since that is what attention takes: [T, B, D] plus positions [T, 1, D].
    const positions = reshape(wpe.forward(iota(T)), [T, 1, wpe.weight.shape[1]!]);
    let x = this.#dropout.forward(add(wte.forward(transpose(ids)), positions));
    for (const block of h) x = block.forward(x, inputs.attention_mask);
    const hidden = reshape(ln_f.forward(x), [T * B, wte.weight.shape[1]!]);

    const logits = transpose(
      reshape(matmul(hidden, wte.weight, { transB: true }), [T, B, this.vocabSize]),
      [1, 0, 2],
    );
    if (!inputs.labels) return { logits };
    const summed = linearCrossEntropy(hidden, wte.weight, reshape(transpose(inputs.labels), [T * B]));
    return { logits, loss: meanLoss(summed), lossSum: summed.lossSum, tokenCount: summed.count };
  }
}

export function buildGpt2Style(options: Partial<ModelOptions> = {}): Gpt2Style {
  return new Gpt2Style(resolveModelOptions(options));
}

registerModel("gpt2_style", buildGpt2Style);

/** Trains it on the bytes of a book, as any registered model: the configuration only names it. */
export async function main(
  options: { steps?: number; outputDir?: string; stream?: { write(text: string): unknown } } = {},
): Promise<TrainResult> {
  const { steps = 100, outputDir = "runs/gpt2-style", stream } = options;
  return trainFromConfig(
    {
      run: { max_steps: steps, output_dir: outputDir },
      model: {
        name: "gpt2_style",
        vocab_size: 256,
        max_seq_len: 64,
        n_layer: 2,
        n_head: 4,
        d_model: 64,
        d_ff: 256,
      },
      data: {
        text_path: fileURLToPath(new URL("../assets/moby-dick.txt", import.meta.url)),
        micro_batch_size: 8,
        shuffle: true,
      },
      optimizer: { lr: 3e-3 },
      scheduler: { warmup_steps: 10 },
      sampling: { at_end: true, prompt: "The ", max_new_tokens: 80 },
      logging: { every_steps: 20 },
    },
    stream ? { stream } : {},
  );
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href) await main({ stream: process.stdout });
