// The contract that every backend fulfils: compile a graph once, run it many times.

import { ModelError } from "../../util/errors.js";
import type { TensorData } from "../dtype.js";
import { formatShape, sameShape, sizeOf } from "../shape.js";
import type { Graph } from "../trace/graph.js";

export type Feeds = Readonly<Record<string, TensorData>>;

export interface Executable {
  /**
   * Runs the graph. Every graph input must be in `feeds` with its exact shape and dtype. Where `into` names an
   * output, the result is written into its array; the other outputs get fresh arrays. Returns all outputs.
   */
  run(feeds: Feeds, into?: Feeds): Promise<Record<string, TensorData>>;
  /** Frees what the executable holds. Running it afterwards is an error. */
  close(): Promise<void>;
}

export interface Backend {
  readonly name: string;
  compile(graph: Graph): Promise<Executable>;
}

/** Checks that `feeds` has every input of `graph` with its shape and dtype. Throws ModelError otherwise. */
export function checkFeeds(graph: Graph, feeds: Feeds): void {
  for (const { name, value } of graph.inputs) {
    const { shape, dtype } = graph.values[value]!;
    const feed = feeds[name];
    if (!feed)
      throw new ModelError(`input "${name}" ${dtype}${formatShape(shape)} is not fed`, {
        code: "backend.missing_feed",
        details: { name },
      });
    if (feed.dtype !== dtype || !sameShape(feed.shape, shape))
      throw new ModelError(
        `input "${name}" must be ${dtype}${formatShape(shape)}, got ${feed.dtype}${formatShape(feed.shape)}`,
        { code: "backend.wrong_feed", details: { name } },
      );
    if (feed.data.length !== sizeOf(shape))
      throw new ModelError(`input "${name}" has ${feed.data.length} values for shape ${formatShape(shape)}`, {
        code: "backend.wrong_feed",
        details: { name },
      });
  }
}
