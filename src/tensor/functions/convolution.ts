// Convolution and pooling over images and sequences, composed from slices and one matrix product, so that every
// backend has them with their gradients. Channels come first ([N, C, H, W]), as in PyTorch.
// Dimension names: N batch, C channels, O output channels, H and W image, P and Q kernel.

import { operatorError } from "../errors.js";
import { requireTensors } from "../ops/rule.js";
import { formatShape } from "../shape.js";
import type { Tensor } from "../tensor.js";
import { add, maximum, mul } from "./elementwise.js";
import { matmul } from "./linalg.js";
import { concat, pad, reshape, slice, split, transpose } from "./shape.js";

/** One number for both directions, or [down, across]. */
export type Pair = number | readonly [number, number];

export interface WindowOptions {
  /** Step from window to window. Default 1; of pooling, the window's size. */
  stride?: Pair;
  /** Rows and columns added around the input. Default 0. */
  padding?: Pair;
  /** Step within a window. Default 1. */
  dilation?: Pair;
}

export interface ConvolutionOptions extends WindowOptions {
  /** Channels are cut in so many groups that do not see one another. Default 1. */
  groups?: number;
}

const pairOf = (value: Pair): readonly [number, number] =>
  typeof value === "number" ? [value, value] : value;

interface Window {
  readonly kernel: readonly [number, number];
  readonly stride: readonly [number, number];
  readonly dilation: readonly [number, number];
}

/**
 * Cross-correlation of x [N, C, H, W] with weight [O, C / groups, P, Q], plus bias [O].
 * Result: [N, O, H', W'] with H' = ⌊(H + 2·padding − dilation·(P − 1) − 1) / stride⌋ + 1.
 */
export function conv2d(
  x: Tensor,
  weight: Tensor,
  bias: Tensor | null = null,
  { stride = 1, padding = 0, dilation = 1, groups = 1 }: ConvolutionOptions = {},
): Tensor {
  requireTensors("conv2d", bias ? [x, weight, bias] : [x, weight]);
  if (x.rank !== 4 || weight.rank !== 4)
    throw operatorError("conv2d", "needs x [N, C, H, W] and weight [O, C / groups, P, Q]", [x, weight]);
  const [O, ownChannels, P, Q] = weight.shape as [number, number, number, number];
  const C = x.shape[1]!;
  if (!Number.isInteger(groups) || groups < 1 || C !== ownChannels * groups || O % groups !== 0)
    throw operatorError(
      "conv2d",
      `${groups} groups of ${ownChannels} channels do not make the ${C} channels of x and ${O} of the result`,
      [x, weight],
    );
  const window: Window = { kernel: [P, Q], stride: pairOf(stride), dilation: pairOf(dilation) };
  // Channels last: a window's values then lie together, and the product needs no further moves.
  const image_NHWC = transpose(padded("conv2d", x, pairOf(padding), 0), [0, 2, 3, 1]);
  const images = groups === 1 ? [image_NHWC] : split(image_NHWC, groups, 3);
  const weights = groups === 1 ? [weight] : split(weight, groups, 0);
  const parts = images.map((image, group) => {
    const patches = windows("conv2d", image, window);
    const columns = patches.length === 1 ? patches[0]! : concat(patches, 3);
    const rows = reshape(transpose(weights[group]!, [2, 3, 1, 0]), [P * Q * ownChannels, O / groups]);
    return matmul(columns, rows);
  });
  const product = parts.length === 1 ? parts[0]! : concat(parts, 3);
  return transpose(bias ? add(product, bias) : product, [0, 3, 1, 2]);
}

/** As {@link conv2d} over sequences: x [N, C, L], weight [O, C / groups, P]. Result: [N, O, L']. */
export function conv1d(
  x: Tensor,
  weight: Tensor,
  bias: Tensor | null = null,
  options: { stride?: number; padding?: number; dilation?: number; groups?: number } = {},
): Tensor {
  requireTensors("conv1d", [x, weight]);
  if (x.rank !== 3 || weight.rank !== 3)
    throw operatorError("conv1d", "needs x [N, C, L] and weight [O, C / groups, P]", [x, weight]);
  const { stride = 1, padding = 0, dilation = 1, groups = 1 } = options;
  const flat = (t: Tensor) => reshape(t, [t.shape[0]!, t.shape[1]!, 1, t.shape[2]!]);
  const result = conv2d(flat(x), flat(weight), bias, {
    stride: [1, stride],
    padding: [0, padding],
    dilation: [1, dilation],
    groups,
  });
  return reshape(result, [result.shape[0]!, result.shape[1]!, result.shape[3]!]);
}

/** Largest value of each window of x [N, C, H, W]; what is added around counts for nothing. Ties share the gradient. */
export function maxPool2d(x: Tensor, kernel: Pair, options: WindowOptions = {}): Tensor {
  return pool("maxPool2d", x, kernel, options, Number.NEGATIVE_INFINITY, (patches) =>
    patches.reduce(maximum),
  );
}

/** Mean of each window of x [N, C, H, W]; zeros that are added around count. */
export function avgPool2d(x: Tensor, kernel: Pair, options: WindowOptions = {}): Tensor {
  return pool("avgPool2d", x, kernel, options, 0, (patches) =>
    mul(
      patches.reduce((sum, patch) => add(sum, patch)),
      1 / patches.length,
    ),
  );
}

function pool(
  op: string,
  x: Tensor,
  kernel: Pair,
  { stride = kernel, padding = 0, dilation = 1 }: WindowOptions,
  around: number,
  combine: (patches: readonly Tensor[]) => Tensor,
): Tensor {
  requireTensors(op, [x]);
  if (x.rank !== 4) throw operatorError(op, `needs [N, C, H, W], got ${formatShape(x.shape)}`, [x]);
  const window: Window = { kernel: pairOf(kernel), stride: pairOf(stride), dilation: pairOf(dilation) };
  const image_NHWC = transpose(padded(op, x, pairOf(padding), around), [0, 2, 3, 1]);
  return transpose(combine(windows(op, image_NHWC, window)), [0, 3, 1, 2]);
}

function padded(op: string, x: Tensor, [rows, columns]: readonly [number, number], value: number): Tensor {
  if (![rows, columns].every((n) => Number.isInteger(n) && n >= 0))
    throw operatorError(op, `padding must be counts, got ${rows} and ${columns}`, [x]);
  if (rows === 0 && columns === 0) return x;
  const around = [0, 0, rows, columns];
  return pad(x, around, around, value);
}

/** For each place of the kernel what all windows have there: P·Q tensors [N, H', W', C]. */
function windows(op: string, image_NHWC: Tensor, { kernel, stride, dilation }: Window): Tensor[] {
  const counts = ([0, 1] as const).map((axis) => {
    const [size, step, reach] = [kernel[axis], stride[axis], dilation[axis]];
    if (![size, step, reach].every((n) => Number.isInteger(n) && n >= 1))
      throw operatorError(
        op,
        `kernel, stride and dilation must be at least 1, got ${size}, ${step}, ${reach}`,
        [image_NHWC],
      );
    const room = image_NHWC.shape[axis + 1]! - reach * (size - 1) - 1;
    if (room < 0)
      throw operatorError(
        op,
        `a window of ${reach * (size - 1) + 1} does not fit ${image_NHWC.shape[axis + 1]} ${axis === 0 ? "rows" : "columns"}`,
        [image_NHWC],
      );
    return Math.floor(room / step) + 1;
  }) as [number, number];
  const rows = Array.from({ length: kernel[0] }, (_, p) =>
    everyNth(image_NHWC, 1, p * dilation[0], counts[0], stride[0]),
  );
  return rows.flatMap((row) =>
    Array.from({ length: kernel[1] }, (_, q) => everyNth(row, 2, q * dilation[1], counts[1], stride[1])),
  );
}

/** `count` slices of `axis` from `start` on, `step` apart. */
function everyNth(x: Tensor, axis: number, start: number, count: number, step: number): Tensor {
  if (step === 1) return slice(x, axis, start, start + count);
  // Cut into runs of `step`, of which the first of each is kept: the last run may reach beyond the end.
  const end = start + count * step;
  const missing = Math.max(0, end - x.shape[axis]!);
  const none = x.shape.map(() => 0);
  const whole = missing === 0 ? x : pad(x, none, none.with(axis, missing));
  const runs = slice(whole, axis, start, end);
  const cut = reshape(runs, [...x.shape.slice(0, axis), count, step, ...x.shape.slice(axis + 1)]);
  return reshape(slice(cut, axis + 1, 0, 1), [...x.shape.slice(0, axis), count, ...x.shape.slice(axis + 1)]);
}
