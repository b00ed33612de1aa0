// Dropout: active only in a trace that trains. Its mask depends on (seed, step, site, position) alone, so a run
// that is resumed draws it again.

import { dropoutMask, isTraining, mul, nextRandomSite, type Shape, type Tensor } from "../../tensor/index.js";
import { Module } from "../module.js";
import { requireRate } from "./sizes.js";

/** A fresh mask of 0 and 1/(1−rate), or undefined when nothing is to be dropped. */
export function drawDropoutMask(shape: Shape, rate: number): Tensor | undefined {
  if (rate === 0 || !isTraining()) return undefined;
  const site = nextRandomSite();
  return site && dropoutMask(site.rng, shape, rate, site.site);
}

export class Dropout extends Module {
  readonly rate: number;

  /** rate: probability of dropping a value, at least 0 and below 1. */
  constructor(rate: number) {
    super();
    requireRate("Dropout", rate);
    this.rate = rate;
  }

  forward(x: Tensor): Tensor {
    const mask = drawDropoutMask(x.shape, this.rate);
    return mask ? mul(x, mask) : x;
  }
}
