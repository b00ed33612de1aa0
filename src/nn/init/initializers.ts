// Ways to fill a new tensor, as values: `normal({ std: 0.02 })` says how, `initialize` does it. Names follow
// PyTorch's torch.nn.init; fans are those of a weight [out, in, …].

import type { Shape } from "../../tensor/index.js";
import { ModelError } from "../../util/errors.js";
import type { RandomStream } from "./random-stream.js";

/** Fills `out`, the row-major values of a tensor of `shape`, drawing from `random` only. */
export type Initializer = (out: Float32Array, shape: Shape, random: RandomStream) => void;

export const constant =
  (value: number): Initializer =>
  (out) =>
    void out.fill(value);
export const zeros = (): Initializer => constant(0);
export const ones = (): Initializer => constant(1);

export const normal =
  ({ mean = 0, std = 1 }: { mean?: number; std?: number } = {}): Initializer =>
  (out, _, random) =>
    random.fillNormal(out, mean, std);

/** Uniform over [low, high). */
export const uniform =
  ({ low = 0, high = 1 }: { low?: number; high?: number } = {}): Initializer =>
  (out, _, random) =>
    random.fillUniform(out, low, high);

/** Normal with variance gain² · 2 / (fanIn + fanOut). */
export const xavierNormal =
  ({ gain = 1 }: { gain?: number } = {}): Initializer =>
  (out, shape, random) =>
    random.fillNormal(out, 0, xavierStd(shape, gain));

/** Uniform with variance gain² · 2 / (fanIn + fanOut). */
export const xavierUniform =
  ({ gain = 1 }: { gain?: number } = {}): Initializer =>
  (out, shape, random) => {
    const bound = Math.sqrt(3) * xavierStd(shape, gain);
    random.fillUniform(out, -bound, bound);
  };

export interface KaimingOptions {
  /** Negative slope of the leaky ReLU that follows; 0 is a plain ReLU. */
  slope?: number;
  fan?: "in" | "out";
}

/** Normal with variance 2 / ((1 + slope²) · fan). */
export const kaimingNormal =
  (options: KaimingOptions = {}): Initializer =>
  (out, shape, random) =>
    random.fillNormal(out, 0, kaimingStd(shape, options));

/** Uniform with variance 2 / ((1 + slope²) · fan). */
export const kaimingUniform =
  (options: KaimingOptions = {}): Initializer =>
  (out, shape, random) => {
    const bound = Math.sqrt(3) * kaimingStd(shape, options);
    random.fillUniform(out, -bound, bound);
  };

function xavierStd(shape: Shape, gain: number): number {
  const { fanIn, fanOut } = fansOf(shape);
  return gain * Math.sqrt(2 / (fanIn + fanOut));
}

function kaimingStd(shape: Shape, { slope = 0, fan = "in" }: KaimingOptions): number {
  const { fanIn, fanOut } = fansOf(shape);
  return Math.sqrt(2 / ((1 + slope * slope) * (fan === "in" ? fanIn : fanOut)));
}

function fansOf(shape: Shape): { fanIn: number; fanOut: number } {
  const [outputs, inputs, ...kernel] = shape;
  if (outputs === undefined || inputs === undefined)
    throw new ModelError(
      `fans are defined for weights [out, in, …], not for shape [${shape.join(", ")}]: use normal, uniform, zeros or ones`,
      { code: "model.init_shape", details: { shape } },
    );
  const area = kernel.reduce((product, extent) => product * extent, 1);
  return { fanIn: inputs * area, fanOut: outputs * area };
}
