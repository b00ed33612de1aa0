// Which parameters a loss can train. `grad` gives zeros for the others, and an update would then only decay them:
// a detached part of a model, or a loss that depends on nothing, must not pass without a word. Walks the recorded
// graph; computes nothing.

import { isFloating } from "../tensor/dtype.js";
import type { Parameter } from "../tensor/parameter.js";
import type { Node, Tensor } from "../tensor/tensor.js";
import { ModelError } from "../util/errors.js";

/** Operations that no gradient passes, besides all that give integers or booleans. */
const barriers: ReadonlySet<string> = new Set(["stopGradient", "sign"]);

/** Names of most parameters to list in a message. */
const listedNames = 8;

/**
 * Names of the `parameters` that no gradient of `loss` reaches.
 * @throws ModelError when it reaches none at all
 */
export function unreachedParameters(
  model: string,
  loss: Tensor,
  parameters: readonly (readonly [string, Parameter])[],
): string[] {
  const reached = nodesWithGradient(loss);
  const unreached = parameters.filter(([, parameter]) => !reached.has(parameter.node)).map(([name]) => name);
  if (unreached.length === parameters.length)
    throw new ModelError(
      `${model}: the loss does not depend on any trainable parameter, so there is nothing to train: forward must ` +
        "compute it from the parameters, without stopGradient on the whole way",
      { code: "model.detached_loss", details: { model, unreached } },
    );
  return unreached;
}

/** @throws ModelError for parameters that would be decayed although nothing trains them */
export function refuseUnreached(model: string, unreached: readonly string[]): void {
  if (unreached.length === 0) return;
  const more = unreached.length - listedNames;
  const names = unreached.slice(0, listedNames).join(", ") + (more > 0 ? ` and ${more} more` : "");
  throw new ModelError(
    `${model}: the loss does not depend on ${names}. Use ${unreached.length === 1 ? "it" : "them"} in forward, or set ` +
      "`trainable = false` to leave unused parameters as they are",
    { code: "model.unreached_parameters", details: { model, unreached } },
  );
}

function nodesWithGradient(loss: Tensor): Set<Node> {
  const reached = new Set<Node>();
  const open = [loss];
  for (let tensor = open.pop(); tensor; tensor = open.pop()) {
    const { node } = tensor;
    if (reached.has(node) || !isFloating(tensor.dtype) || barriers.has(node.op)) continue;
    reached.add(node);
    open.push(...node.inputs);
  }
  return reached;
}
