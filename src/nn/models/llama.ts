// The Llama family (Llama, Mistral, Qwen2, SmolLM): a decoder with RMSNorm, rotary positions, grouped attention and
// SwiGLU. The same mathematics as the reference model, with more settings and under the names that the family's
// weights have everywhere, so that its files are exchanged as they are.

import type { Parameter, Tensor } from "../../tensor/index.js";
import { ModuleList } from "../containers.js";
import type { IncrementalModel, KeyValue } from "../contract.js";
import { normal, zeros } from "../init/initializers.js";
import { wholeHeadWidth } from "../layers/attention.js";
import { Dropout } from "../layers/dropout.js";
import { Embedding } from "../layers/embedding.js";
import { GroupedAttention } from "../layers/grouped-attention.js";
import { Linear } from "../layers/linear.js";
import { GatedMlp } from "../layers/mlp.js";
import { RMSNorm } from "../layers/norm.js";
import { RotaryTable } from "../layers/rotary.js";
import { Module } from "../module.js";
import { type Attend, CausalDecoder, type PositionRows, preNormBlock } from "./causal-decoder.js";
import { INIT_STD, residualInit } from "./initial-weights.js";
import { type LlamaExtra, readLlamaExtra, rotaryScalingOf } from "./llama-extra.js";
import { type ModelOptions, mlpWidthOf, resolveModelOptions } from "./options.js";

const weightInit = normal({ std: INIT_STD });

class SelfAttention extends GroupedAttention {
  readonly q_proj: Linear;
  readonly k_proj: Linear;
  readonly v_proj: Linear;
  readonly o_proj: Linear;

  constructor(options: ModelOptions, extra: LlamaExtra) {
    const { dModel, nHead: heads, dropout } = options;
    const headWidth = headWidthOf(options, extra);
    const keyHeads = options.nKvHead ?? heads;
    super("Llama", { heads, keyHeads, headWidth, dropout });
    const linear = (outputs: number) =>
      new Linear(dModel, outputs, { bias: extra.qkv_bias, biasInit: zeros(), weightInit });
    this.q_proj = linear(heads * headWidth);
    this.k_proj = linear(keyHeads * headWidth);
    this.v_proj = linear(keyHeads * headWidth);
    this.o_proj = new Linear(heads * headWidth, dModel, {
      bias: extra.attention_output_bias,
      biasInit: zeros(),
      weightInit: residualInit(options),
    });
  }

  protected override project(x: Tensor): KeyValue & { query: Tensor } {
    return { query: this.q_proj.forward(x), key: this.k_proj.forward(x), value: this.v_proj.forward(x) };
  }

  protected override merge(mixed: Tensor): Tensor {
    return this.o_proj.forward(mixed);
  }
}

class Layer extends Module {
  readonly input_layernorm: RMSNorm;
  readonly self_attn: SelfAttention;
  readonly post_attention_layernorm: RMSNorm;
  readonly mlp: GatedMlp;
  readonly #dropout: Dropout;

  constructor(options: ModelOptions, extra: LlamaExtra) {
    super();
    const norm = () => new RMSNorm(options.dModel, { eps: extra.norm_eps });
    this.input_layernorm = norm();
    this.self_attn = new SelfAttention(options, extra);
    this.post_attention_layernorm = norm();
    this.mlp = new GatedMlp(options.dModel, mlpWidthOf(options), {
      bias: extra.mlp_bias,
      weightInit,
      outputInit: residualInit(options),
    });
    this.#dropout = new Dropout(options.dropout);
  }

  forward(x: Tensor, attend: Attend): { x: Tensor; keyValue: KeyValue } {
    const drop = (branch: Tensor) => this.#dropout.forward(branch);
    return preNormBlock(x, attend, {
      attentionNorm: this.input_layernorm,
      attention: this.self_attn,
      dropAttention: drop,
      mlpNorm: this.post_attention_layernorm,
      mlp: this.mlp,
      dropMlp: drop,
    });
  }
}

class Trunk extends Module {
  readonly embed_tokens: Embedding;
  readonly layers: ModuleList<Layer>;
  readonly norm: RMSNorm;

  constructor(options: ModelOptions, extra: LlamaExtra) {
    super();
    this.embed_tokens = new Embedding(options.vocabSize, options.dModel, { weightInit });
    this.layers = new ModuleList(Array.from({ length: options.nLayer }, () => new Layer(options, extra)));
    this.norm = new RMSNorm(options.dModel, { eps: extra.norm_eps });
  }
}

export class Llama extends CausalDecoder {
  readonly model: Trunk;
  readonly lm_head: Linear;
  readonly options: ModelOptions;
  /** `options.extra` with its defaults. */
  readonly extra: LlamaExtra;
  readonly vocabSize: number;
  readonly blockSize: number;
  readonly cacheLayout: IncrementalModel["cacheLayout"];
  readonly #rotary: RotaryTable;
  readonly #dropout: Dropout;

  /** @throws ModelError for options that do not fit together, and for unknown names in `extra` */
  constructor(options: Partial<ModelOptions> = {}) {
    super();
    this.options = resolveModelOptions(options);
    this.extra = readLlamaExtra(this.options.extra);
    const { vocabSize, blockSize, nLayer, nHead, nKvHead, dModel, dropout, tieWeights, ropeBase } =
      this.options;
    this.vocabSize = vocabSize;
    this.blockSize = blockSize;
    this.model = new Trunk(this.options, this.extra);
    this.lm_head = new Linear(dModel, vocabSize, { bias: false, weightInit });
    if (tieWeights) this.lm_head.weight = this.model.embed_tokens.weight;
    const headWidth = headWidthOf(this.options, this.extra);
    this.cacheLayout = { layers: nLayer, heads: nKvHead ?? nHead, headWidth };
    this.#rotary = new RotaryTable(blockSize, headWidth, ropeBase, rotaryScalingOf(this.extra));
    this.#dropout = new Dropout(dropout);
  }

  protected override get title(): string {
    return "Llama";
  }

  protected override rowsUpTo(count: number): PositionRows {
    return { rotary: this.#rotary.rows(count) };
  }

  protected override rowAt(position: Tensor): PositionRows {
    return { rotary: this.#rotary.rowAt(position) };
  }

  protected override embed(ids_TB: Tensor): Tensor {
    return this.#dropout.forward(this.model.embed_tokens.forward(ids_TB));
  }

  protected override blocks(): Iterable<Layer> {
    return this.model.layers;
  }

  protected override normalizeOutput(x_TBD: Tensor): Tensor {
    return this.model.norm.forward(x_TBD);
  }

  protected override headWeight(): Parameter {
    return this.lm_head.weight;
  }
}

function headWidthOf({ dModel, nHead }: ModelOptions, { head_dim }: LlamaExtra): number {
  return head_dim ?? wholeHeadWidth(dModel, nHead);
}
