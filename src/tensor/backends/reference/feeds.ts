// What the reference backend checks beyond the contract, since it serves tests and debugging: nothing is fed
// that the graph does not read, and every array is of the kind that holds its dtype.

import { ModelError } from "../../../util/errors.js";
import { allocate, type DType, isStorageOf, type TensorData } from "../../dtype.js";
import { formatShape, type Shape, sameShape } from "../../shape.js";
import type { Graph } from "../../trace/graph.js";
import { checkFeeds, type Feeds } from "../backend.js";

/** Throws ModelError unless `feeds` holds exactly the graph's inputs, in matching arrays. */
export function checkFeedsExactly(graph: Graph, feeds: Feeds): void {
  checkFeeds(graph, feeds);
  const names = graph.inputs.map(({ name }) => name);
  for (const [name, { dtype, data }] of Object.entries(feeds)) {
    if (!names.includes(name))
      throw new ModelError(
        `"${name}" is fed but is no input of this graph: its inputs are ${names.map((n) => `"${n}"`).join(", ") || "none"}`,
        { code: "backend.unknown_feed", details: { name, inputs: names } },
      );
    const storage = allocate(dtype, 0).constructor;
    if (!isStorageOf(dtype, data))
      throw new ModelError(
        `input "${name}" of dtype ${dtype} must be held in a ${storage.name}, got a ${data.constructor.name}`,
        { code: "backend.wrong_feed", details: { name } },
      );
  }
}

/** Throws ModelError unless `target` can take an output of this type. */
export function checkTarget(name: string, target: TensorData, shape: Shape, dtype: DType): void {
  if (target.dtype !== dtype || !sameShape(target.shape, shape))
    throw new ModelError(
      `the array for output "${name}" must be ${dtype}${formatShape(shape)}, got ${target.dtype}${formatShape(target.shape)}`,
      { code: "backend.wrong_target", details: { name } },
    );
}
