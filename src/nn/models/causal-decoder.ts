// What all decoders here have in common: checks of the inputs, loss, prefill, cached decoding. A subclass says how
// ids become a residual stream, which blocks it passes, and what its layers are called in a state dict.
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
  type Parameter,
  reshape,
  slice,
  type Tensor,
  transpose,
} from "../../tensor/index.js";
import { ModelError } from "../../util/errors.js";
import {
  checkInputNames,
  type IncrementalModel,
  type IncrementalOutput,
  type KeyValue,
  type ModelInputs,
  type ModelOutput,
} from "../contract.js";
import type { AttentionResult, GroupedAttention } from "../layers/grouped-attention.js";
import type { RotaryRows } from "../layers/rotary.js";
import { sameDocument } from "../layers/visible-attention.js";
import { meanLoss, type SummedLoss } from "../loss.js";
import { Module } from "../module.js";

/** What a model knows of the positions at hand: rotations for its attention, or vectors to add to the embedding. */
export interface PositionRows {
  readonly rotary?: RotaryRows;
  /** [T, 1, D], or [T, B, D] where each position has its own. */
  readonly added?: Tensor;
}

/** Runs an attention layer in the way that the pass at hand needs: over a sequence, or over a cache. */
export type Attend = (attention: GroupedAttention, x_TBD: Tensor) => AttentionResult;

export interface DecoderBlock {
  /** x: [T, B, D] */
  forward(x: Tensor, attend: Attend): { readonly x: Tensor; readonly keyValue: KeyValue };
}

interface Layer {
  forward(x: Tensor): Tensor;
}

/** x + attention(norm(x)), then the same with the MLP: the block of all models here, whatever its layers are called. */
export function preNormBlock(
  x: Tensor,
  attend: Attend,
  parts: {
    readonly attentionNorm: Layer;
    readonly attention: GroupedAttention;
    readonly dropAttention: (branch: Tensor) => Tensor;
    readonly mlpNorm: Layer;
    readonly mlp: Layer;
    readonly dropMlp: (branch: Tensor) => Tensor;
  },
): { x: Tensor; keyValue: KeyValue } {
  const { output, keyValue } = attend(parts.attention, parts.attentionNorm.forward(x));
  const mixed = add(x, parts.dropAttention(output));
  return { x: add(mixed, parts.dropMlp(parts.mlp.forward(parts.mlpNorm.forward(mixed)))), keyValue };
}

export abstract class CausalDecoder extends Module implements IncrementalModel {
  abstract readonly vocabSize: number;
  abstract readonly blockSize: number;
  abstract readonly cacheLayout: IncrementalModel["cacheLayout"];

  /** What messages call it. */
  protected abstract get title(): string;
  /** Positions 0 … count−1. */
  protected abstract rowsUpTo(count: number): PositionRows;
  /** One position, int32 [1], that is known only when the graph runs. */
  protected abstract rowAt(position: Tensor): PositionRows;
  /** ids: int32 [T, B]. Result: [T, B, D]. */
  protected abstract embed(ids_TB: Tensor, rows: PositionRows): Tensor;
  protected abstract blocks(): Iterable<DecoderBlock>;
  protected abstract normalizeOutput(x_TBD: Tensor): Tensor;
  /** [V, D] */
  protected abstract headWeight(): Parameter;

  /**
   * input_ids: int32 [B, T], T ≤ blockSize, each below vocabSize. labels: int32 [B, T], the id that follows each
   * position (−100: none), or [B, T−1]: the last position predicts nothing. attention_mask: [B, T], zero hides a
   * key; a position that sees no key gets nothing from attention. Where several documents share a row, document_ids,
   * int32 [B, T], says which positions belong together: none sees another document; position_ids, int32 [B, T] below
   * blockSize, counts positions otherwise than from the start of the row. Gives logits [B, T, V] and, with labels, the
   * loss in nats.
   * @throws ModelError for unknown inputs and for shapes or dtypes that do not fit
   */
  forward(inputs: ModelInputs): ModelOutput {
    checkInputNames(this.title, inputs, {
      required: ["input_ids"],
      optional: ["labels", "attention_mask", "position_ids", "document_ids"],
    });
    const { input_ids, labels, attention_mask, position_ids, document_ids } = inputs;
    const ids_BT = this.#checkIds(input_ids!);
    const keyMask = attention_mask && checkMask(attention_mask, ids_BT);
    const rows = position_ids
      ? this.#rowsOf(checkPlaces("position_ids", position_ids, ids_BT))
      : this.rowsUpTo(ids_BT.shape[1]!);
    const visible = document_ids && sameDocument(checkPlaces("document_ids", document_ids, ids_BT), keyMask);
    const mask = visible ? { visible } : keyMask && { keyMask };
    const { x_TBD } = this.#run(ids_BT, rows, (attention, x) =>
      attention.forwardWithKeys(x, { ...rotaryOf(rows), ...mask }),
    );
    const logits = transpose(matmul(x_TBD, this.headWeight(), { transB: true }), [1, 0, 2]);
    if (!labels) return { logits };
    const summed = this.#loss(x_TBD, labels);
    return { logits, loss: meanLoss(summed), lossSum: summed.lossSum, tokenCount: summed.count };
  }

  prefill({ input_ids, last }: { input_ids: Tensor; last: Tensor }): IncrementalOutput {
    const ids_BT = this.#checkIds(input_ids);
    const rows = this.rowsUpTo(ids_BT.shape[1]!);
    const { x_TBD, keyValues } = this.#run(ids_BT, rows, (attention, x) =>
      attention.forwardWithKeys(x, rotaryOf(rows)),
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
    const rows = this.rowAt(position);
    const isNew = reshape(equal(iota(S), position), [S, 1, 1, 1]);
    const isVisible = expand(reshape(lessEqual(iota(S), position), [1, S]), [B, S]);
    let layer = 0;
    const { x_TBD, keyValues } = this.#run(ids_BT, rows, (attention, x) =>
      attention.forwardCached(x, { cache: cache[layer++]!, isNew, isVisible, ...rotaryOf(rows) }),
    );
    return { logits: this.#rowLogits(x_TBD), keyValues };
  }

  /** What is known of positions that each place of the batch has for itself. */
  #rowsOf(positions_BT: Tensor): PositionRows {
    const [B, T] = positions_BT.shape as [number, number];
    const { rotary, added } = this.rowsUpTo(this.blockSize);
    const at = (table: Tensor) => gather(table, transpose(positions_BT), 0);
    const perHead = (table: Tensor) => reshape(at(table), [T, B, 1, table.shape[1]!]);
    return {
      ...(rotary && { rotary: { cos: perHead(rotary.cos), sin: perHead(rotary.sin) } }),
      ...(added && { added: reshape(at(added), [T, B, added.shape[2]!]) }),
    };
  }

  #run(ids_BT: Tensor, rows: PositionRows, attend: Attend): { x_TBD: Tensor; keyValues: KeyValue[] } {
    const keyValues: KeyValue[] = [];
    let x = this.embed(transpose(ids_BT), rows);
    for (const block of this.blocks()) {
      const result = block.forward(x, attend);
      keyValues.push(result.keyValue);
      x = result.x;
    }
    return { x_TBD: this.normalizeOutput(x), keyValues };
  }

  /** Logits [B, V] of the single position in x [1, B, D]. */
  #rowLogits(x_1BD: Tensor): Tensor {
    const [, B, D] = x_1BD.shape as [number, number, number];
    return matmul(reshape(x_1BD, [B, D]), this.headWeight(), { transB: true });
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
      this.headWeight(),
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

function rotaryOf({ rotary }: PositionRows): { rotary?: RotaryRows } {
  return rotary ? { rotary } : {};
}

/** One whole number for each id. */
function checkPlaces(name: string, places: Tensor, ids_BT: Tensor): Tensor {
  const [B, T] = ids_BT.shape;
  if (places.dtype !== "int32" || places.rank !== 2 || places.shape[0] !== B || places.shape[1] !== T)
    throw new ModelError(
      `${name} must be int32 [${ids_BT.shape.join(", ")}] as input_ids, got ${places.dtype} [${places.shape.join(", ")}]`,
      { code: "model.places", details: { name, shape: places.shape, dtype: places.dtype } },
    );
  return places;
}

function checkMask(mask: Tensor, ids_BT: Tensor): Tensor {
  if (mask.rank !== 2 || mask.shape[0] !== ids_BT.shape[0] || mask.shape[1] !== ids_BT.shape[1])
    throw new ModelError(
      `attention_mask must have the shape of input_ids, [${ids_BT.shape.join(", ")}], got [${mask.shape.join(", ")}]`,
      { code: "model.attention_mask", details: { shape: mask.shape } },
    );
  return cast(mask, "bool");
}
