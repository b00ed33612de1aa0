// Normalisation over a batch, channel by channel, with running statistics for use. Names, defaults and what is counted
// are PyTorch's. The statistics are floating buffers that several nodes average; the counter is a whole number that
// each node keeps for itself.

import {
  add,
  cast,
  div,
  isTraining,
  mean,
  mul,
  type Parameter,
  reshape,
  rsqrt,
  sub,
  type Tensor,
} from "../../tensor/index.js";
import { ModelError } from "../../util/errors.js";
import { createParameter } from "../init/initialize.js";
import { ones, zeros } from "../init/initializers.js";
import { Buffer, Module } from "../module.js";
import { requireSize } from "./sizes.js";

export interface BatchNormOptions {
  /** Added inside the root. Default 1e-5. */
  eps?: number;
  /** Share of each batch in the running statistics; null: all batches count the same. Default 0.1. */
  momentum?: number | null;
}

export class BatchNorm extends Module {
  weight: Parameter;
  bias: Parameter;
  readonly running_mean: Buffer;
  readonly running_var: Buffer;
  readonly num_batches_tracked: Buffer;
  readonly eps: number;
  readonly momentum: number | null;

  constructor(channels: number, { eps = 1e-5, momentum = 0.1 }: BatchNormOptions = {}) {
    super();
    requireSize("BatchNorm", "channels", channels);
    if (momentum !== null && !(momentum >= 0 && momentum <= 1))
      throw new ModelError(`BatchNorm: momentum must be from 0 to 1, or null, got ${momentum}`, {
        code: "model.momentum",
        details: { momentum },
      });
    this.weight = createParameter([channels], ones());
    this.bias = createParameter([channels], zeros());
    const statistic = (value: number) =>
      new Buffer(
        { dtype: "float32", shape: [channels], data: new Float32Array(channels).fill(value) },
        { live: true },
      );
    this.running_mean = statistic(0);
    this.running_var = statistic(1);
    this.num_batches_tracked = new Buffer(
      { dtype: "int32", shape: [], data: new Int32Array(1) },
      { live: true },
    );
    this.eps = eps;
    this.momentum = momentum;
  }

  /** x: [N, C, …]. Training normalises by the batch and tracks it; otherwise the running statistics count. */
  forward(x: Tensor): Tensor {
    const C = this.weight.shape[0]!;
    if (x.rank < 2 || x.shape[1] !== C)
      throw new ModelError(`BatchNorm needs [N, ${C}, …], got [${x.shape.join(", ")}]`, {
        code: "model.batch_norm",
        details: { shape: x.shape, channels: C },
      });
    const perChannel = [1, C, ...x.shape.slice(2).map(() => 1)];
    const spread = (t: Tensor) => reshape(t, perChannel);
    const { center, variance } = isTraining() ? this.#batch(x, spread) : this.#running();
    const scale = mul(rsqrt(add(variance, this.eps)), this.weight);
    return add(mul(sub(x, spread(center)), spread(scale)), spread(this.bias));
  }

  #running(): { center: Tensor; variance: Tensor } {
    return { center: this.running_mean.toTensor(), variance: this.running_var.toTensor() };
  }

  /** Statistics of the batch at hand, which are tracked: [C] each. */
  #batch(x: Tensor, spread: (t: Tensor) => Tensor): { center: Tensor; variance: Tensor } {
    const axis = x.shape.map((_, i) => i).filter((i) => i !== 1);
    const count = axis.reduce((product, i) => product * x.shape[i]!, 1);
    if (count < 2)
      throw new ModelError(
        `BatchNorm needs at least two values per channel to train on, got [${x.shape.join(", ")}]: use larger batches`,
        { code: "model.batch_norm", details: { shape: x.shape } },
      );
    const center = mean(x, { axis });
    const off = sub(x, spread(center));
    const variance = mean(mul(off, off), { axis });
    this.#track(center, mul(variance, count / (count - 1)));
    return { center, variance };
  }

  #track(center: Tensor, variance: Tensor): void {
    const seen = add(this.num_batches_tracked.toTensor(), 1);
    this.num_batches_tracked.update(seen);
    const share = this.momentum ?? div(1, cast(seen, "float32"));
    for (const [buffer, value] of [
      [this.running_mean, center],
      [this.running_var, variance],
    ] as const) {
      const before = buffer.toTensor();
      buffer.update(add(before, mul(sub(value, before), share)));
    }
  }
}
