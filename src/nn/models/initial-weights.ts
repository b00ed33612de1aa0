// How the weights of the models here start: small normal numbers, for projections into the residual stream
// smaller still where an option asks for it.

import { type Initializer, normal } from "../init/initializers.js";
import type { ModelOptions } from "./options.js";

export const INIT_STD = 0.02;

/** For the layers that write to the residual stream. */
export function residualInit({ residualScaledInit, nLayer }: ModelOptions): Initializer {
  return normal({ std: residualScaledInit ? INIT_STD / Math.sqrt(2 * nLayer) : INIT_STD });
}
