// All passes in the order that lets each see what the others exposed.

import type { Graph } from "../trace/graph.js";
import { eliminateCommonSubexpressions } from "./eliminate-common-subexpressions.js";
import { eliminateDeadCode } from "./eliminate-dead-code.js";
import { foldConstants } from "./fold-constants.js";
import { fuseMatmulAdd } from "./fuse-matmul-add.js";
import { simplify } from "./simplify.js";

/** Graphs settle after two or three rounds; the bound only guards start-up time. */
const maxRounds = 8;

/**
 * An equivalent graph with less to do: same inputs and outputs by name, type and (up to rounding) value.
 * Deterministic: equal graphs give equal results.
 */
export function optimize(graph: Graph): Graph {
  let current = eliminateDeadCode(graph);
  for (let round = 0; round < maxRounds; round++) {
    const next = eliminateDeadCode(eliminateCommonSubexpressions(foldConstants(simplify(current))));
    if (next === current) break;
    current = next;
  }
  // Last, since no other pass looks inside a fused product.
  return eliminateDeadCode(fuseMatmulAdd(current));
}
