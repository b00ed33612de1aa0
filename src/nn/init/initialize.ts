// Parameters that know how they start, and the one call that starts them all.

import { Parameter, type Shape } from "../../tensor/index.js";
import { ModelError } from "../../util/errors.js";
import type { Module } from "../module.js";
import type { Initializer } from "./initializers.js";
import { RandomStream } from "./random-stream.js";

const initializers = new WeakMap<Parameter, Initializer>();

/** A parameter that {@link initialize} fills by `initializer`. Until then it holds zeros. */
export function createParameter(
  shape: Shape,
  initializer: Initializer,
  options: { trainable?: boolean } = {},
): Parameter {
  const parameter = new Parameter(shape, options);
  initializers.set(parameter, initializer);
  return parameter;
}

/**
 * Gives every parameter its starting values, drawn from a stream named by `seed` and the parameter's name: the
 * same seed and names give the same bits. A shared parameter is drawn once, under its first name. Parameters
 * that were made without an initialiser keep their values.
 * @param seed any safe integer
 * @param only names of the parameters to draw; default all
 */
export function initialize(module: Module, seed: number, only?: ReadonlySet<string>): void {
  if (!Number.isSafeInteger(seed))
    throw new ModelError(`seed ${seed} is not a safe integer`, { code: "model.seed", details: { seed } });
  for (const [name, parameter] of module.namedParameters())
    if (only?.has(name) ?? true)
      initializers.get(parameter)?.(parameter.data, parameter.shape, new RandomStream(seed, name));
}
