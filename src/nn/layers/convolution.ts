// Convolutions and pooling as layers. Names and layouts of weights are PyTorch's.

import {
  avgPool2d,
  type ConvolutionOptions,
  conv1d,
  conv2d,
  maxPool2d,
  type Pair,
  type Parameter,
  type Tensor,
  type WindowOptions,
} from "../../tensor/index.js";
import { createParameter } from "../init/initialize.js";
import { type Initializer, uniform } from "../init/initializers.js";
import { Module } from "../module.js";
import { requireSize } from "./sizes.js";

interface Starts {
  /** Default true. */
  bias?: boolean;
  /** How the weight starts; by default, as the bias does, uniform within ±1/√(values of one window). */
  weightInit?: Initializer;
  biasInit?: Initializer;
}

export interface Conv2dOptions extends ConvolutionOptions, Starts {}

export interface Conv1dOptions extends Starts {
  /** Default 1. */
  stride?: number;
  /** Default 0. */
  padding?: number;
  /** Default 1. */
  dilation?: number;
  /** Default 1. */
  groups?: number;
}

/** Weight and bias of a window that reads `area` places of each of its channels. */
function startsOf(
  owner: string,
  [inputs, outputs, groups]: readonly [number, number, number],
  kernel: readonly number[],
  options: Starts,
): { weight: Parameter; bias: Parameter | null } {
  for (const [what, value] of Object.entries({ inputs, outputs, groups })) requireSize(owner, what, value);
  for (const extent of kernel) requireSize(owner, "kernel", extent);
  // Groups that do not divide the channels are refused where the layer is used.
  const channels = Math.max(1, Math.floor(inputs / groups));
  const bound = 1 / Math.sqrt(kernel.reduce((product, extent) => product * extent, channels));
  const byDefault = uniform({ low: -bound, high: bound });
  return {
    weight: createParameter([outputs, channels, ...kernel], options.weightInit ?? byDefault),
    bias: options.bias === false ? null : createParameter([outputs], options.biasInit ?? byDefault),
  };
}

export class Conv2d extends Module {
  /** [outputs, inputs / groups, P, Q] */
  weight: Parameter;
  /** [outputs] */
  bias: Parameter | null;
  readonly #options: ConvolutionOptions;

  constructor(inputs: number, outputs: number, kernel: Pair, options: Conv2dOptions = {}) {
    super();
    const { bias: _, weightInit: _w, biasInit: _b, ...window } = options;
    const extents = typeof kernel === "number" ? [kernel, kernel] : kernel;
    const starts = startsOf("Conv2d", [inputs, outputs, options.groups ?? 1], extents, options);
    this.weight = starts.weight;
    this.bias = starts.bias;
    this.#options = window;
  }

  /** x: [N, inputs, H, W]. Result: [N, outputs, H', W']. */
  forward(x: Tensor): Tensor {
    return conv2d(x, this.weight, this.bias, this.#options);
  }
}

export class Conv1d extends Module {
  /** [outputs, inputs / groups, P] */
  weight: Parameter;
  /** [outputs] */
  bias: Parameter | null;
  readonly #options: Omit<Conv1dOptions, keyof Starts>;

  constructor(inputs: number, outputs: number, kernel: number, options: Conv1dOptions = {}) {
    super();
    const { bias: _, weightInit: _w, biasInit: _b, ...window } = options;
    const starts = startsOf("Conv1d", [inputs, outputs, options.groups ?? 1], [kernel], options);
    this.weight = starts.weight;
    this.bias = starts.bias;
    this.#options = window;
  }

  /** x: [N, inputs, L]. Result: [N, outputs, L']. */
  forward(x: Tensor): Tensor {
    return conv1d(x, this.weight, this.bias, this.#options);
  }
}

abstract class WindowPool extends Module {
  protected readonly kernel: Pair;
  protected readonly options: WindowOptions;

  constructor(kernel: Pair, options: WindowOptions = {}) {
    super();
    this.kernel = kernel;
    this.options = options;
  }
}

/** The largest value of each window. */
export class MaxPool2d extends WindowPool {
  /** x: [N, C, H, W] */
  forward(x: Tensor): Tensor {
    return maxPool2d(x, this.kernel, this.options);
  }
}

/** The mean of each window. */
export class AvgPool2d extends WindowPool {
  /** x: [N, C, H, W] */
  forward(x: Tensor): Tensor {
    return avgPool2d(x, this.kernel, this.options);
  }
}
