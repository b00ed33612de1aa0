// The reference model: a decoder with RMSNorm, rotary positions, grouped attention and SwiGLU. Field names are
// the state-dict names that its Python counterpart uses, so both exchange weights.
// Dimension names: B batch, T positions, S cached positions, V vocabulary, D model width.
// Inputs and logits are batch-first; inside, sequences are time-major, as the tensor engine's attention wants.

import {
  add,
  cast,
  equal,
  expand,
  gather,
  iota,
  lessEqual,
  linearCrossEntropy,
  matmul,
  reshape,
  slice,
  type Tensor,
  transpose,
} from "../../tensor/index.js";
import { ModelError } from "../../util/errors.js";
import { ModuleList } from "../containers.js";
import {
  checkInputNames,
  type IncrementalModel,
  type IncrementalOutput,
  type KeyValue,
  type ModelInputs,
  type ModelOutput,
} from "../contract.js";
import { normal } from "../init/initializers.js";
import { CausalSelfAttention } from "../layers/attention.js";
import { Dropout } from "../layers/dropout.js";
import { Embedding } from "../layers/embedding.js";
import { Linear } from "../layers/linear.js";
import { GatedMlp } from "../layers/mlp.js";
import { RMSNorm } from "../layers/norm.js";
import { type RotaryRows, RotaryTable } from "../layers/rotary.js";
import { meanLoss, type SummedLoss } from "../loss.js";
import { Module } from "../module.js";
import { type ModelOptions, mlpWidthOf, resolveModelOptions } from "./options.js";

const INIT_STD = 0.02;

type AttentionResult = { output: Tensor; keyValue: KeyValue };

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
    const outputInit = options.residualScaledInit
      ? normal({ std: INIT_STD / Math.sqrt(2 * options.nLayer) })
      : weightInit;
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

  /** x: [T, B, D]; `attend` is the kind of attention to run on the normalised x. */
  forward(
    x: Tensor,
    attend: (attention: CausalSelfAttention, x: Tensor) => AttentionResult,
  ): { x: Tensor; keyValue: KeyValue } {
    const { output, keyValue } = attend(this.attn, this.ln1.forward(x));
    let branch = output;
    for (let i = 0; i < this.#attentionDropouts; i++) branch = this.#dropout.forward(branch);
    const mixed = add(x, branch);
    return { x: add(mixed, this.#dropout.forward(this.mlp.forward(this.ln2.forward(mixed)))), keyValue };
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

export class ReferenceTransformer extends Module implements IncrementalModel {
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

  /**
   * input_ids: int32 [B, T], T ≤ blockSize, each below vocabSize. labels: int32 [B, T], the id that follows each
   * position (−100: none), or [B, T−1]: the last position predicts nothing. attention_mask: [B, T], zero hides a
   * key; a position that sees no key gets nothing from attention. Gives logits [B, T, V] and, with labels, the
   * loss in nats.
   * @throws ModelError for unknown inputs and for shapes or dtypes that do not fit
   */
  forward(inputs: ModelInputs): ModelOutput {
    checkInputNames("ReferenceTransformer", inputs, {
      required: ["input_ids"],
      optional: ["labels", "attention_mask"],
    });
    const { input_ids, labels, attention_mask } = inputs;
    const ids_BT = this.#checkIds(input_ids!);
    const keyMask = attention_mask && checkMask(attention_mask, ids_BT);
    const { x_TBD } = this.#run(ids_BT, this.#rotary.rows(ids_BT.shape[1]!), (attention, x, rotary) =>
      attention.forwardWithKeys(x, { rotary, ...(keyMask && { keyMask }) }),
    );
    const logits = transpose(this.lm_head.forward(x_TBD), [1, 0, 2]);
    if (!labels) return { logits };
    const summed = this.#loss(x_TBD, labels);
    return { logits, loss: meanLoss(summed), lossSum: summed.lossSum, tokenCount: summed.count };
  }

  prefill({ input_ids, last }: { input_ids: Tensor; last: Tensor }): IncrementalOutput {
    const ids_BT = this.#checkIds(input_ids);
    const { x_TBD, keyValues } = this.#run(
      ids_BT,
      this.#rotary.rows(ids_BT.shape[1]!),
      (attention, x, rotary) => attention.forwardWithKeys(x, { rotary }),
    );
    return { logits: this.#rowLogits(gather(x_TBD, last, 0)), keyValues };
  }

  decode({
    input_ids,
    position,
    cache,
  }: {
    input_ids: Tensor;
    position: Tensor;
    cache: readonly KeyValue[];
  }): IncrementalOutput {
    const ids_BT = this.#checkIds(input_ids);
    const [B, T] = ids_BT.shape as [number, number];
    const S = this.blockSize;
    if (T !== 1 || cache.length !== this.cacheLayout.layers)
      throw new ModelError(
        `decode takes one position and ${this.cacheLayout.layers} cached layers, got ${T} and ${cache.length}`,
        { code: "model.decode", details: { positions: T, layers: cache.length } },
      );
    const table = this.#rotary.rows(S);
    const rotary = { cos: gather(table.cos, position, 0), sin: gather(table.sin, position, 0) };
    const isNew = reshape(equal(iota(S), position), [S, 1, 1, 1]);
    const isVisible = expand(reshape(lessEqual(iota(S), position), [1, S]), [B, S]);
    let layer = 0;
    const { x_TBD, keyValues } = this.#run(ids_BT, rotary, (attention, x, rows) =>
      attention.forwardCached(x, { cache: cache[layer++]!, isNew, isVisible, rotary: rows }),
    );
    return { logits: this.#rowLogits(x_TBD), keyValues };
  }

  /** Refuses: recomputing activations is not built yet. `false` is the present behaviour. */
  setGradientCheckpointing(enabled: boolean): void {
    if (enabled)
      throw new ModelError("gradient checkpointing is not built yet: set gradient_checkpointing to false", {
        code: "model.gradient_checkpointing",
      });
  }

  #run(
    ids_BT: Tensor,
    rotary: RotaryRows,
    attend: (attention: CausalSelfAttention, x: Tensor, rotary: RotaryRows) => AttentionResult,
  ): { x_TBD: Tensor; keyValues: KeyValue[] } {
    const keyValues: KeyValue[] = [];
    let x = this.#dropout.forward(this.transformer.wte.forward(transpose(ids_BT)));
    for (const block of this.transformer.h) {
      const result = block.forward(x, (attention, normed) => attend(attention, normed, rotary));
      keyValues.push(result.keyValue);
      x = result.x;
    }
    return { x_TBD: this.transformer.ln_f.forward(x), keyValues };
  }

  /** Logits [B, V] of the single position in x [1, B, D]. */
  #rowLogits(x_1BD: Tensor): Tensor {
    const [, B, D] = x_1BD.shape as [number, number, number];
    return matmul(reshape(x_1BD, [B, D]), this.lm_head.weight, { transB: true });
  }

  #loss(x_TBD: Tensor, labels: Tensor): SummedLoss {
    const [T, B, D] = x_TBD.shape as [number, number, number];
    const [rows, columns] = labels.shape;
    if (labels.dtype !== "int32" || labels.rank !== 2 || rows !== B || (columns !== T && columns !== T - 1))
      throw new ModelError(
        `labels must be int32 [${B}, ${T}] or [${B}, ${T - 1}] for input_ids [${B}, ${T}], got ${labels.dtype} [${labels.shape.join(", ")}]`,
        { code: "model.labels", details: { shape: labels.shape, dtype: labels.dtype } },
      );
    const used = columns === T ? x_TBD : slice(x_TBD, 0, 0, T - 1);
    const tokens = columns! * B;
    return linearCrossEntropy(
      reshape(used, [tokens, D]),
      this.lm_head.weight,
      reshape(transpose(labels), [tokens]),
    );
  }

  #checkIds(ids: Tensor): Tensor {
    const T = ids.shape[1] ?? 0;
    if (ids.dtype !== "int32" || ids.rank !== 2 || T < 1)
      throw new ModelError(`input_ids must be int32 [B, T], got ${ids.dtype} [${ids.shape.join(", ")}]`, {
        code: "model.input_ids",
        details: { shape: ids.shape, dtype: ids.dtype },
      });
    if (T > this.blockSize)
      throw new ModelError(
        `input_ids has ${T} positions, but the model was built for ${this.blockSize}: shorten the input or raise blockSize (max_seq_len)`,
        { code: "model.too_long", details: { positions: T, blockSize: this.blockSize } },
      );
    return ids;
  }
}

function checkMask(mask: Tensor, ids_BT: Tensor): Tensor {
  if (mask.rank !== 2 || mask.shape[0] !== ids_BT.shape[0] || mask.shape[1] !== ids_BT.shape[1])
    throw new ModelError(
      `attention_mask must have the shape of input_ids, [${ids_BT.shape.join(", ")}], got [${mask.shape.join(", ")}]`,
      { code: "model.attention_mask", details: { shape: mask.shape } },
    );
  return cast(mask, "bool");
}
