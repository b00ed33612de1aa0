// Reverse-mode differentiation over recorded graphs. Works on symbols only: the result is more graph.

import { isFloating } from "../dtype.js";
import { operatorError } from "../errors.js";
import { add, full, zeros } from "../functions/elementwise.js";
import { formatShape } from "../shape.js";
import { type Node, Tensor } from "../tensor.js";
import { gradientRules } from "./gradient-rules.js";
import type { GradientContext } from "./rule.js";

/**
 * Gradients of the scalar `output` by each tensor of `wrt`, in order; zeros where `output` does not depend
 * on it. Throws OperatorError when `output` is not a floating-point scalar.
 */
export function grad(output: Tensor, wrt: readonly Tensor[]): Tensor[] {
  if (output.rank !== 0)
    throw operatorError(
      "grad",
      `needs a scalar, got shape ${formatShape(output.shape)}: reduce it with sum or mean`,
      [output],
    );
  if (!isFloating(output.dtype))
    throw operatorError("grad", `needs a floating-point scalar, got ${output.dtype}`, [output]);

  const nodes = nodesBetween(output, wrt);
  const grads = new Map<Node, (Tensor | undefined)[]>();
  const accumulate = (t: Tensor, g: Tensor) => {
    const slots = grads.get(t.node) ?? [];
    const before = slots[t.index];
    slots[t.index] = before ? add(before, g) : g;
    grads.set(t.node, slots);
  };
  accumulate(output, full([], 1, output.dtype));

  for (const node of nodes) {
    const slots = grads.get(node);
    if (node.op === "leaf" || !slots) continue;
    const context = {
      params: node.params,
      inputs: node.inputs,
      outputs: node.outputs.map((_, index) => new Tensor(node, index)),
      grads: node.outputs.map((_, index) => slots[index]),
      needs: node.inputs.map((t) => isFloating(t.dtype) && nodes.has(t.node)),
    };
    if (context.grads.every((g) => g === undefined)) continue;
    const rule = gradientRules[node.op] as (context: GradientContext<never>) => (Tensor | undefined)[];
    const inputGrads = rule(context as unknown as GradientContext<never>);
    node.inputs.forEach((t, i) => {
      const g = inputGrads[i];
      if (g && context.needs[i]) accumulate(t, g);
    });
  }
  return wrt.map((t) => grads.get(t.node)?.[t.index] ?? zeros(t.shape, t.dtype));
}

/** `output` and its gradients, for symmetry with the field's usual names. */
export function valueAndGrad(output: Tensor, wrt: readonly Tensor[]): { value: Tensor; grads: Tensor[] } {
  return { value: output, grads: grad(output, wrt) };
}

/** The inputs through which a gradient can flow back. */
function gradientPaths(node: Node): readonly Tensor[] {
  return node.op === "stopGradient" ? [] : node.inputs.filter((t) => isFloating(t.dtype));
}

/** Nodes on a differentiable path from any of `wrt` to `output`, latest first (ids are a topological order). */
function nodesBetween(output: Tensor, wrt: readonly Tensor[]): Set<Node> {
  const targets = new Set(wrt.map((t) => t.node));
  const depends = new Map<Node, boolean>();
  const stack: Node[] = [output.node];
  while (stack.length > 0) {
    const node = stack.at(-1)!;
    if (depends.has(node)) {
      stack.pop();
      continue;
    }
    const open = node.inputs.filter((t) => !depends.has(t.node));
    if (open.length > 0) {
      for (const t of open) stack.push(t.node);
      continue;
    }
    depends.set(node, targets.has(node) || gradientPaths(node).some((t) => depends.get(t.node)));
    stack.pop();
  }
  return new Set([...depends.keys()].filter((node) => depends.get(node)).sort((a, b) => b.id - a.id));
}
