// What this machine's matrix product reaches at best, measured with the engine that trains: the base of MFU.

import { matmul, max } from "../tensor/functions/linalg.js";
import { expand } from "../tensor/functions/shape.js";
import { input } from "../tensor/tensor.js";
import { toGraph } from "../tensor/trace/graph.js";
import type { TrainEngine } from "./engine/contract.js";

const size = 768;
/** Products after one another in a run: long enough that the way to the engine and back does not count. */
const chain = 8;
const runs = 4;

/** Floating-point operations per second of the fastest of a few large products (2 per multiply-add). */
export async function measurePeakFlops(engine: TrainEngine): Promise<number> {
  // Scalars are fed and repeated inside, so that no large array crosses threads and nothing can be folded.
  const a = expand(input("a", [], "float32"), [size, size]);
  const b = expand(input("b", [], "float32"), [size, size]);
  let product = a;
  for (let i = 0; i < chain; i++) product = matmul(product, b);
  const graph = toGraph({ result: max(product) });
  const program = await engine.addProgram(graph);
  const feed = (value: number) => ({ dtype: "float32" as const, shape: [], data: Float32Array.of(value) });
  let best = Number.POSITIVE_INFINITY;
  for (let run = 0; run < runs; run++) {
    const started = performance.now();
    await engine.evaluate(program, { a: feed(1), b: feed(1 / size) });
    best = Math.min(best, performance.now() - started);
  }
  await engine.removeProgram(program);
  return (2 * chain * size ** 3 * 1000) / best;
}
