// Reading and adding at positions given by int32 tensors.

import { apply } from "../ops/shape-rules.js";
import type { Tensor } from "../tensor.js";
import { resolveAxis } from "./linalg.js";

/** Slices of `x` along `axis` at `indices`; the axis is replaced by the shape of `indices`. */
export function gather(x: Tensor, indices: Tensor, axis = 0): Tensor {
  return apply("gather", [x, indices], { axis: resolveAxis("gather", x, axis) });
}

/** Rows of `weight` [V, D] at `ids` [...]: [..., D]. */
export function embedding(weight: Tensor, ids: Tensor): Tensor {
  return gather(weight, ids, 0);
}

/** One element per index along `axis`; `indices` has the shape of the result (as in torch.gather). */
export function takeAlong(x: Tensor, indices: Tensor, axis: number): Tensor {
  return apply("takeAlong", [x, indices], { axis: resolveAxis("takeAlong", x, axis) });
}

/** `base` with `updates` added at slices `indices` of `axis`; repeated indices add up. Inverse of gather. */
export function scatterAdd(base: Tensor, indices: Tensor, updates: Tensor, axis = 0): Tensor {
  return apply("scatterAdd", [base, indices, updates], { axis: resolveAxis("scatterAdd", base, axis) });
}

/** `base` with one element added per index along `axis` (as in torch.scatter_add). Inverse of takeAlong. */
export function scatterAddAlong(base: Tensor, indices: Tensor, updates: Tensor, axis: number): Tensor {
  return apply("scatterAddAlong", [base, indices, updates], {
    axis: resolveAxis("scatterAddAlong", base, axis),
  });
}
