// ONNX lowerings of attention and its gradient. Operands are time-major [T, B, H, D], so FusedMatMul with
// transBatch reads each head in place. Queries are cut in blocks; a causal block only meets keys up to its end.
// Grouped heads: q is read as [T, B, K, G, D] against k [S, B, K, 1, D], so k and v are never copied.

import type { AttentionParams } from "../../../ops/params.js";
import type { OnnxBuilder, OnnxName } from "../builder.js";
import { type LoweredValue, type Lowering, reshapeTo } from "../lowering.js";

/** Added to a hidden score: exp gives exactly 0 unless a row hides everything. */
const hidden = -1e30;

interface Sizes {
  T: number;
  B: number;
  H: number;
  D: number;
  S: number;
  K: number;
  /** Query heads per key head. */
  G: number;
}

function sizesOf(q: LoweredValue, k: LoweredValue): Sizes {
  const [T, B, H, D] = q.shape as [number, number, number, number];
  const [S, , K] = k.shape as [number, number, number];
  return { T, B, H, D, S, K, G: H / K };
}

/** One head axis per tensor when every query head has its own keys, else (K, G) and (K, 1). */
class HeadLayout {
  constructor(
    readonly b: OnnxBuilder,
    readonly sizes: Sizes,
  ) {}

  get grouped(): boolean {
    return this.sizes.G > 1;
  }

  queries(x: OnnxName, rows: number): OnnxName {
    const { B, K, G, D } = this.sizes;
    return this.grouped ? reshapeTo(this.b, x, [rows, B, K, G, D]) : x;
  }

  keys(x: OnnxName, rows: number): OnnxName {
    const { B, K, D } = this.sizes;
    return this.grouped ? reshapeTo(this.b, x, [rows, B, K, 1, D]) : x;
  }

  /** [B, (K, G | H), rows, columns] → the public shape [B, H, rows, columns]. */
  flatScores(x: OnnxName, rows: number, columns: number): OnnxName {
    const { B, H } = this.sizes;
    return this.grouped ? reshapeTo(this.b, x, [B, H, rows, columns]) : x;
  }

  groupScores(x: OnnxName, rows: number, columns: number): OnnxName {
    const { B, K, G } = this.sizes;
    return this.grouped ? reshapeTo(this.b, x, [B, K, G, rows, columns]) : x;
  }

  /** [B, heads…, rows, D] → [rows, B, H, D]. */
  toTimeMajor(x: OnnxName, rows: number): OnnxName {
    const { B, H, D } = this.sizes;
    if (!this.grouped) return this.b.emit("Transpose", [x], { perm: [2, 0, 1, 3] });
    return reshapeTo(this.b, this.b.emit("Transpose", [x], { perm: [3, 0, 1, 2, 4] }), [rows, B, H, D]);
  }

  /** Gradient by keys, per query head, to one per key head: Σ over the group. [B, K, G, rows, D] → [B, K, rows, D]. */
  sumGroup(x: OnnxName): OnnxName {
    return this.grouped ? this.b.emit("ReduceSum", [x, this.b.ints([2])], { keepdims: 0 }) : x;
  }
}

const product = (
  b: OnnxBuilder,
  x: OnnxName,
  y: OnnxName,
  attributes: Record<string, number>,
  alpha?: number,
) =>
  b.emitMicrosoft("FusedMatMul", [x, y], {
    ...attributes,
    ...(alpha === undefined ? {} : { alpha: { float: alpha } }),
  });

/** The optional operands in order, after q, k and v. */
function optionalInputs(params: AttentionParams, inputs: readonly LoweredValue[]) {
  const rest = inputs.slice(3);
  const keyMask = params.hasKeyMask ? rest.shift() : undefined;
  const dropoutMask = params.hasDropout ? rest.shift() : undefined;
  return { keyMask, dropoutMask, rest };
}

/** Rows and visible keys of each block. */
function blocksOf(params: AttentionParams, { T, S }: Sizes) {
  const rows = T / params.blocks;
  return Array.from({ length: params.blocks }, (_, i) => ({
    first: i * rows,
    rows,
    columns: params.causal ? (i + 1) * rows : S,
  }));
}
type Block = ReturnType<typeof blocksOf>[number];

/** The first `end` elements of axis 0. */
function prefix(b: OnnxBuilder, x: OnnxName, end: number, extent: number): OnnxName {
  return end === extent ? x : b.emit("Slice", [x, b.ints([0]), b.ints([end]), b.ints([0])]);
}

/** Cuts axis `axis` into the blocks' rows. */
function cut(b: OnnxBuilder, x: OnnxName, blocks: readonly Block[], axis: number): OnnxName[] {
  if (blocks.length === 1) return [x];
  const sizes = b.ints(blocks.map((block) => block.rows));
  return b.emitAll("Split", [x, sizes], { attributes: { axis }, outputs: blocks.length });
}

/** What is added to a block's scores for causality, [rows, columns]; equal blocks share it. */
function causalBias(b: OnnxBuilder, { first, rows, columns }: Block): OnnxName {
  const data = new Float32Array(rows * columns);
  for (let r = 0; r < rows; r++) for (let c = first + r + 1; c < columns; c++) data[r * columns + c] = hidden;
  return b.constant({ dtype: "float32", shape: [rows, columns], data });
}

/** Slice of the dropout mask [B, H, T, S] that belongs to a block. */
function dropoutOf(b: OnnxBuilder, mask: LoweredValue, { first, rows, columns }: Block): OnnxName {
  const [, , T, S] = mask.shape as [number, number, number, number];
  if (rows === T && columns === S) return mask.name;
  return b.emit("Slice", [mask.name, b.ints([first, 0]), b.ints([first + rows, columns]), b.ints([2, 3])]);
}

export const lowerAttention: Lowering<"attention"> = ({ b, params, inputs }) => {
  const [q, k, v] = inputs as [LoweredValue, LoweredValue, LoweredValue];
  const sizes = sizesOf(q, k);
  const layout = new HeadLayout(b, sizes);
  const { keyMask, dropoutMask } = optionalInputs(params, inputs);
  const blocks = blocksOf(params, sizes);
  const queries = cut(b, q.name, blocks, 0);
  const parts: OnnxName[] = [];
  const probabilities = blocks.map((block, i) => {
    const { rows, columns } = block;
    const keys = layout.keys(prefix(b, k.name, columns, sizes.S), columns);
    const values = layout.keys(prefix(b, v.name, columns, sizes.S), columns);
    const transposes = { transBatchA: 1, transBatchB: 1, transB: 1 };
    let scores = product(b, layout.queries(queries[i]!, rows), keys, transposes, params.scale);
    if (params.causal) scores = b.emit("Add", [scores, causalBias(b, block)]);
    let visible: OnnxName | undefined;
    if (keyMask) {
      const rank5 = layout.grouped ? [sizes.B, 1, 1, 1, columns] : [sizes.B, 1, 1, columns];
      const seen = reshapeTo(
        b,
        columns === sizes.S
          ? keyMask.name
          : b.emit("Slice", [keyMask.name, b.ints([0]), b.ints([columns]), b.ints([1])]),
        rank5,
      );
      scores = b.emit("Where", [seen, scores, b.float(hidden)]);
      const open = b.emit("Cast", [seen], { to: 1 });
      // Where a query sees no key, softmax over equal scores is uniform: cleared by visibility to zeros.
      visible = params.causal ? b.emit("Mul", [open, causalVisibility(b, block)]) : open;
    }
    let weights = b.emit("Softmax", [scores], { axis: -1 });
    if (visible) weights = b.emit("Mul", [weights, visible]);
    let mixing = weights;
    if (dropoutMask)
      mixing = b.emit("Mul", [weights, layout.groupScores(dropoutOf(b, dropoutMask, block), rows, columns)]);
    parts.push(layout.toTimeMajor(product(b, mixing, values, { transBatchB: 1 }), rows));
    return layout.flatScores(weights, rows, columns);
  });
  const out = parts.length === 1 ? parts[0]! : b.emit("Concat", parts, { axis: 0 });
  return [out, ...probabilities];
};

function causalVisibility(b: OnnxBuilder, { first, rows, columns }: Block): OnnxName {
  const data = new Float32Array(rows * columns);
  for (let r = 0; r < rows; r++) data.fill(1, r * columns, r * columns + Math.min(columns, first + r + 1));
  return b.constant({ dtype: "float32", shape: [rows, columns], data });
}

export const lowerAttentionGrad: Lowering<"attentionGrad"> = ({ b, params, inputs }) => {
  const [q, k, v] = inputs as [LoweredValue, LoweredValue, LoweredValue];
  const sizes = sizesOf(q, k);
  const { T, B, H, D, S, K } = sizes;
  const layout = new HeadLayout(b, sizes);
  const { dropoutMask, rest } = optionalInputs(params, inputs);
  const [dOut, out, ...probabilities] = rest as [LoweredValue, LoweredValue, ...LoweredValue[]];
  const blocks = blocksOf(params, sizes);

  // Σ over the head width of dOut·out equals Σ over keys of p·dp, at a fraction of the work. [B, H, T, 1]
  const elementwise = reshapeTo(b, b.emit("Mul", [dOut.name, out.name]), [T * B * H, D]);
  const summed = reshapeTo(b, b.emit("ReduceSum", [elementwise, b.ints([1])], { keepdims: 1 }), [T, B, H, 1]);
  const rowSums = cut(b, b.emit("Transpose", [summed], { perm: [1, 2, 0, 3] }), blocks, 2);
  const upstream = cut(b, dOut.name, blocks, 0);
  const queries = cut(b, q.name, blocks, 0);

  let dKeys: OnnxName | undefined;
  let dValues: OnnxName | undefined;
  const rowAxis = layout.grouped ? 3 : 2;
  /** Adds a longer block's gradient to that of the shorter ones before it. */
  const accumulate = (
    sum: OnnxName | undefined,
    next: OnnxName,
    before: number,
    columns: number,
  ): OnnxName => {
    if (sum === undefined) return next;
    if (before === columns) return b.emit("Add", [sum, next]);
    const [shared, fresh] = b.emitAll("Split", [next, b.ints([before, columns - before])], {
      attributes: { axis: rowAxis },
      outputs: 2,
    });
    return b.emit("Concat", [b.emit("Add", [sum, shared!]), fresh!], { axis: rowAxis });
  };

  let covered = 0;
  const dQueries = blocks.map((block, i) => {
    const { rows, columns } = block;
    const keys = layout.keys(prefix(b, k.name, columns, S), columns);
    const values = layout.keys(prefix(b, v.name, columns, S), columns);
    const weights = layout.groupScores(probabilities[i]!.name, rows, columns);
    const mask = dropoutMask && layout.groupScores(dropoutOf(b, dropoutMask, block), rows, columns);
    const mixing = mask ? b.emit("Mul", [weights, mask]) : weights;
    const g = layout.queries(upstream[i]!, rows);
    const x = layout.queries(queries[i]!, rows);
    dValues = accumulate(dValues, product(b, mixing, g, { transA: 1, transBatchB: 1 }), covered, columns);
    let dWeights = product(b, g, values, { transBatchA: 1, transBatchB: 1, transB: 1 });
    if (mask) dWeights = b.emit("Mul", [dWeights, mask]);
    const dScores = b.emit("Mul", [
      weights,
      b.emit("Sub", [dWeights, layout.groupScores(rowSums[i]!, rows, 1)]),
    ]);
    dKeys = accumulate(
      dKeys,
      product(b, dScores, x, { transA: 1, transBatchB: 1 }, params.scale),
      covered,
      columns,
    );
    covered = columns;
    return layout.toTimeMajor(product(b, dScores, keys, { transBatchB: 1 }, params.scale), rows);
  });
  const byKeyHead = (x: OnnxName) =>
    reshapeTo(b, b.emit("Transpose", [layout.sumGroup(x)], { perm: [2, 0, 1, 3] }), [S, B, K, D]);
  return [
    dQueries.length === 1 ? dQueries[0]! : b.emit("Concat", dQueries, { axis: 0 }),
    byKeyHead(dKeys!),
    byKeyHead(dValues!),
  ];
};
