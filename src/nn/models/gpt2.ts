// GPT-2: a decoder with learned positions, LayerNorm, one projection for queries, keys and values, and a plain MLP.
// Names and weight layouts ([inputs, outputs]) are those that its weights have everywhere, so that its files are
// exchanged as they are. It uses neither rotary positions nor fewer key heads.

import {
  add,
  gather,
  gelu,
  matmul,
  type Parameter,
  relu,
  reshape,
  slice,
  split,
  type Tensor,
} from "../../tensor/index.js";
import { ModelError } from "../../util/errors.js";
import { ModuleList } from "../containers.js";
import type { IncrementalModel, KeyValue } from "../contract.js";
import { createParameter } from "../init/initialize.js";
import { type Initializer, normal, zeros } from "../init/initializers.js";
import { AdaptableLayer } from "../layers/adapter.js";
import { wholeHeadWidth } from "../layers/attention.js";
import { Dropout } from "../layers/dropout.js";
import { Embedding } from "../layers/embedding.js";
import { GroupedAttention } from "../layers/grouped-attention.js";
import { Linear } from "../layers/linear.js";
import { LayerNorm } from "../layers/norm.js";
import { Module } from "../module.js";
import { type Attend, CausalDecoder, type PositionRows, preNormBlock } from "./causal-decoder.js";
import { choiceRule, positiveRule, readExtra } from "./extra.js";
import { INIT_STD, residualInit } from "./initial-weights.js";
import { type ModelOptions, resolveModelOptions } from "./options.js";

const weightInit = normal({ std: INIT_STD });

const activations = {
  /** By the tanh approximation. */
  gelu_new: (x: Tensor) => gelu(x, "tanh"),
  gelu: (x: Tensor) => gelu(x),
  relu,
} satisfies Record<string, (x: Tensor) => Tensor>;

export type Gpt2Activation = keyof typeof activations;
export const gpt2Activations = Object.keys(activations) as Gpt2Activation[];

/** The keys of `model.extra`. */
export interface Gpt2Extra {
  /** Added inside the root of every LayerNorm. */
  readonly norm_eps: number;
  readonly activation: Gpt2Activation;
}

/** y = x · W + b. */
class Projection extends AdaptableLayer {
  /** [inputs, outputs] */
  readonly weight: Parameter;
  /** [outputs] */
  readonly bias: Parameter;

  constructor(inputs: number, outputs: number, init: Initializer = weightInit) {
    super();
    this.weight = createParameter([inputs, outputs], init);
    this.bias = createParameter([outputs], zeros());
  }

  forward(x: Tensor): Tensor {
    return this.adapted(add(matmul(x, this.weight), this.bias), x);
  }

  protected override get layout() {
    return "inputs, outputs" as const;
  }
}

class Attention extends GroupedAttention {
  readonly c_attn: Projection;
  readonly c_proj: Projection;

  constructor(options: ModelOptions) {
    const { dModel, nHead: heads, dropout } = options;
    super("Gpt2", { heads, keyHeads: heads, headWidth: wholeHeadWidth(dModel, heads), dropout });
    this.c_attn = new Projection(dModel, 3 * dModel);
    this.c_proj = new Projection(dModel, dModel, residualInit(options));
  }

  protected override project(x: Tensor): KeyValue & { query: Tensor } {
    const [query, key, value] = split(this.c_attn.forward(x), 3, -1);
    return { query: query!, key: key!, value: value! };
  }

  protected override merge(mixed: Tensor): Tensor {
    return this.c_proj.forward(mixed);
  }
}

class Mlp extends Module {
  readonly c_fc: Projection;
  readonly c_proj: Projection;
  readonly #activate: (x: Tensor) => Tensor;

  constructor(options: ModelOptions, { activation }: Gpt2Extra) {
    super();
    const width = gpt2MlpWidth(options);
    this.c_fc = new Projection(options.dModel, width);
    this.c_proj = new Projection(width, options.dModel, residualInit(options));
    this.#activate = activations[activation];
  }

  forward(x: Tensor): Tensor {
    return this.c_proj.forward(this.#activate(this.c_fc.forward(x)));
  }
}

class Block extends Module {
  readonly ln_1: LayerNorm;
  readonly attn: Attention;
  readonly ln_2: LayerNorm;
  readonly mlp: Mlp;
  readonly #dropout: Dropout;

  constructor(options: ModelOptions, extra: Gpt2Extra) {
    super();
    this.ln_1 = new LayerNorm(options.dModel, { eps: extra.norm_eps });
    this.attn = new Attention(options);
    this.ln_2 = new LayerNorm(options.dModel, { eps: extra.norm_eps });
    this.mlp = new Mlp(options, extra);
    this.#dropout = new Dropout(options.dropout);
  }

  forward(x: Tensor, attend: Attend): { x: Tensor; keyValue: KeyValue } {
    const drop = (branch: Tensor) => this.#dropout.forward(branch);
    return preNormBlock(x, attend, {
      attentionNorm: this.ln_1,
      attention: this.attn,
      dropAttention: drop,
      mlpNorm: this.ln_2,
      mlp: this.mlp,
      dropMlp: drop,
    });
  }
}

class Trunk extends Module {
  readonly wte: Embedding;
  readonly wpe: Embedding;
  readonly h: ModuleList<Block>;
  readonly ln_f: LayerNorm;

  constructor(options: ModelOptions, extra: Gpt2Extra) {
    super();
    this.wte = new Embedding(options.vocabSize, options.dModel, { weightInit });
    this.wpe = new Embedding(options.blockSize, options.dModel, { weightInit });
    this.h = new ModuleList(Array.from({ length: options.nLayer }, () => new Block(options, extra)));
    this.ln_f = new LayerNorm(options.dModel, { eps: extra.norm_eps });
  }
}

export class Gpt2 extends CausalDecoder {
  readonly transformer: Trunk;
  readonly lm_head: Linear;
  readonly options: ModelOptions;
  /** `options.extra` with its defaults. */
  readonly extra: Gpt2Extra;
  readonly vocabSize: number;
  readonly blockSize: number;
  readonly cacheLayout: IncrementalModel["cacheLayout"];
  readonly #dropout: Dropout;

  /** @throws ModelError for options that do not fit together, and for unknown names in `extra` */
  constructor(options: Partial<ModelOptions> = {}) {
    super();
    this.options = resolveModelOptions(options);
    this.extra = readGpt2Extra(this.options.extra);
    const { vocabSize, blockSize, nLayer, nHead, nKvHead, dModel, dropout, tieWeights } = this.options;
    if (nKvHead !== null && nKvHead !== nHead)
      throw new ModelError(
        `gpt2 has as many key heads as heads: set n_kv_head to ${nHead} or null, not ${nKvHead}`,
        { code: "model.key_heads", details: { heads: nHead, keyHeads: nKvHead } },
      );
    this.vocabSize = vocabSize;
    this.blockSize = blockSize;
    this.transformer = new Trunk(this.options, this.extra);
    this.lm_head = new Linear(dModel, vocabSize, { bias: false, weightInit });
    if (tieWeights) this.lm_head.weight = this.transformer.wte.weight;
    this.cacheLayout = { layers: nLayer, heads: nHead, headWidth: dModel / nHead };
    this.#dropout = new Dropout(dropout);
  }

  protected override get title(): string {
    return "Gpt2";
  }

  protected override rowsUpTo(count: number): PositionRows {
    const { weight } = this.transformer.wpe;
    return { added: reshape(slice(weight, 0, 0, count), [count, 1, this.options.dModel]) };
  }

  protected override rowAt(position: Tensor): PositionRows {
    const row = gather(this.transformer.wpe.weight, position, 0);
    return { added: reshape(row, [1, 1, this.options.dModel]) };
  }

  protected override embed(ids_TB: Tensor, { added }: PositionRows): Tensor {
    return this.#dropout.forward(add(this.transformer.wte.forward(ids_TB), added!));
  }

  protected override blocks(): Iterable<Block> {
    return this.transformer.h;
  }

  protected override normalizeOutput(x_TBD: Tensor): Tensor {
    return this.transformer.ln_f.forward(x_TBD);
  }

  protected override headWeight(): Parameter {
    return this.lm_head.weight;
  }
}

/** @throws ModelError for unknown keys and values that do not fit */
export function readGpt2Extra(extra: Readonly<Record<string, unknown>>): Gpt2Extra {
  return readExtra<Gpt2Extra>("gpt2", extra, {
    norm_eps: positiveRule(1e-5),
    activation: choiceRule(gpt2Activations, "gelu_new"),
  });
}

/** `mlpWidth`, or `dFf` as it stands: two matrices instead of three, so nothing is taken off. */
export function gpt2MlpWidth({ mlpWidth, dFf, dModel }: ModelOptions): number {
  return mlpWidth ?? dFf ?? 4 * dModel;
}
