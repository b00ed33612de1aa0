// The reference model: a decoder with RMSNorm, rotary positions, grouped attention and SwiGLU. Field names are
// the state-dict names that its Python counterpart uses, so both exchange weights.

import type { Parameter, Tensor } from "../../tensor/index.js";
import { ModuleList } from "../containers.js";
import type { IncrementalModel, KeyValue } from "../contract.js";
import { normal } from "../init/initializers.js";
import { CausalSelfAttention } from "../layers/attention.js";
import { Dropout } from "../layers/dropout.js";
import { Embedding } from "../layers/embedding.js";
import { Linear } from "../layers/linear.js";
import { GatedMlp } from "../layers/mlp.js";
import { RMSNorm } from "../layers/norm.js";
import { RotaryTable } from "../layers/rotary.js";
import { Module } from "../module.js";
import { type Attend, CausalDecoder, type PositionRows, preNormBlock } from "./causal-decoder.js";
import { readExtra } from "./extra.js";
import { INIT_STD, residualInit } from "./initial-weights.js";
import { type ModelOptions, mlpWidthOf, resolveModelOptions } from "./options.js";

class Block extends Module {
  readonly ln1: RMSNorm;
  readonly attn: CausalSelfAttention;
  readonly ln2: RMSNorm;
  readonly mlp: GatedMlp;
  readonly #dropout: Dropout;
  readonly #attentionDropouts: number;

  constructor(options: ModelOptions) {
    super();
    const weightInit = normal({ std: INIT_STD });
    const outputInit = residualInit(options);
    this.ln1 = new RMSNorm(options.dModel);
    this.attn = new CausalSelfAttention({
      width: options.dModel,
      heads: options.nHead,
      keyHeads: options.nKvHead ?? options.nHead,
      dropout: options.dropout,
      weightInit,
      outputInit,
    });
    this.ln2 = new RMSNorm(options.dModel);
    this.mlp = new GatedMlp(options.dModel, mlpWidthOf(options), { weightInit, outputInit });
    this.#dropout = new Dropout(options.dropout);
    this.#attentionDropouts = options.doubleDropout ? 2 : 1;
  }

  forward(x: Tensor, attend: Attend): { x: Tensor; keyValue: KeyValue } {
    return preNormBlock(x, attend, {
      attentionNorm: this.ln1,
      attention: this.attn,
      dropAttention: (branch) => {
        let dropped = branch;
        for (let i = 0; i < this.#attentionDropouts; i++) dropped = this.#dropout.forward(dropped);
        return dropped;
      },
      mlpNorm: this.ln2,
      mlp: this.mlp,
      dropMlp: (branch) => this.#dropout.forward(branch),
    });
  }
}

class Trunk extends Module {
  readonly wte: Embedding;
  readonly h: ModuleList<Block>;
  readonly ln_f: RMSNorm;

  constructor(options: ModelOptions) {
    super();
    this.wte = new Embedding(options.vocabSize, options.dModel, { weightInit: normal({ std: INIT_STD }) });
    this.h = new ModuleList(Array.from({ length: options.nLayer }, () => new Block(options)));
    this.ln_f = new RMSNorm(options.dModel);
  }
}

export class ReferenceTransformer extends CausalDecoder {
  readonly transformer: Trunk;
  readonly lm_head: Linear;
  readonly options: ModelOptions;
  readonly vocabSize: number;
  readonly blockSize: number;
  readonly cacheLayout: IncrementalModel["cacheLayout"];
  readonly #rotary: RotaryTable;
  readonly #dropout: Dropout;

  /** @throws ModelError for options that do not fit together */
  constructor(options: Partial<ModelOptions> = {}) {
    super();
    this.options = resolveModelOptions(options);
    readExtra("reference_transformer", this.options.extra, {});
    const { vocabSize, blockSize, nLayer, nHead, nKvHead, dModel, dropout, tieWeights, ropeBase } =
      this.options;
    this.vocabSize = vocabSize;
    this.blockSize = blockSize;
    this.transformer = new Trunk(this.options);
    this.lm_head = new Linear(dModel, vocabSize, { bias: false, weightInit: normal({ std: INIT_STD }) });
    if (tieWeights) this.lm_head.weight = this.transformer.wte.weight;
    const headWidth = dModel / nHead;
    this.cacheLayout = { layers: nLayer, heads: nKvHead ?? nHead, headWidth };
    this.#rotary = new RotaryTable(blockSize, headWidth, ropeBase);
    this.#dropout = new Dropout(dropout);
  }

  protected override get title(): string {
    return "ReferenceTransformer";
  }

  protected override rowsUpTo(count: number): PositionRows {
    return { rotary: this.#rotary.rows(count) };
  }

  protected override rowAt(position: Tensor): PositionRows {
    return { rotary: this.#rotary.rowAt(position) };
  }

  protected override embed(ids_TB: Tensor): Tensor {
    return this.#dropout.forward(this.transformer.wte.forward(ids_TB));
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
