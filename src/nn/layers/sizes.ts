// The one check of constructor arguments that all layers share.

import { ModelError } from "../../util/errors.js";

/** Throws ModelError unless `value` is a positive integer. */
export function requireSize(owner: string, what: string, value: number): void {
  if (!Number.isInteger(value) || value < 1)
    throw new ModelError(`${owner}: ${what} must be a positive integer, got ${value}`, {
      code: "model.size",
      details: { owner, what, value },
    });
}

/** Throws ModelError unless `rate` is a probability below 1. */
export function requireRate(owner: string, rate: number): void {
  if (!(rate >= 0 && rate < 1))
    throw new ModelError(`${owner}: the dropout rate must be at least 0 and below 1, got ${rate}`, {
      code: "model.rate",
      details: { owner, rate },
    });
}
