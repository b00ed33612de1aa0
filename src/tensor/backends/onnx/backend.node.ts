// The backend for real work: one ONNX graph per traced computation, run by onnxruntime-node on the CPU.
// Blocks its thread while it runs; the training engine keeps it in a worker.

import { createRequire } from "node:module";
import type * as ort from "onnxruntime-node";
import { ModelError } from "../../../util/errors.js";
import { allocate, type DType, type TensorData } from "../../dtype.js";
import { Bank } from "../../kernels/bank.js";
import { loadKernels } from "../../kernels/load.node.js";
import { optimize } from "../../passes/optimize.js";
import { sizeOf } from "../../shape.js";
import type { Graph } from "../../trace/graph.js";
import { type Backend, checkFeeds, type Executable, type Feeds } from "../backend.js";
import { type HostPlan, planHostWork } from "./host-plan.js";
import { HostWork } from "./host-work.js";
import { feedName, lowerGraph, resultName } from "./lower-graph.js";

export interface OnnxBackendOptions {
  /** Threads inside one operator. Results are bit-equal only for equal counts. */
  threads: number;
  /** Memory for scratch. One is made when absent. */
  bank?: Bank;
  /** The bank in which a result will lie, so that the host's work on it runs there. Default: the scratch bank. */
  bankOf?: (result: string) => Bank;
}

/** Loaded on first use: reading the native library takes most of the start-up time of a run. */
let runtime: typeof ort | undefined;
function loadRuntime(): typeof ort {
  runtime ??= createRequire(import.meta.url)("onnxruntime-node") as typeof ort;
  return runtime;
}

/** Version of ONNX Runtime in use. */
export function onnxRuntimeVersion(): string {
  return loadRuntime().env.versions.common;
}

export async function createOnnxBackend(options: OnnxBackendOptions): Promise<Backend> {
  const bank = options.bank ?? new Bank(await loadKernels(), 0);
  const makeHost = (plan: HostPlan) => new HostWork(plan, bank, options.bankOf ?? (() => bank));
  return {
    name: "onnx",
    compile: (graph) => OnnxExecutable.create(graph, options.threads, makeHost),
  };
}

class OnnxExecutable implements Executable {
  readonly #tensors = new Map<string, { data: TensorData["data"]; tensor: ort.Tensor }>();
  #session: ort.InferenceSession | undefined;

  private constructor(
    private readonly graph: Graph,
    private readonly fed: readonly string[],
    private readonly host: HostWork,
    session: ort.InferenceSession | undefined,
  ) {
    this.#session = session;
  }

  static async create(
    source: Graph,
    threads: number,
    makeHost: (plan: HostPlan) => HostWork,
  ): Promise<OnnxExecutable> {
    const plan = planHostWork(optimize(source));
    const { model, fed } = lowerGraph(plan.graph);
    const session = await loadRuntime().InferenceSession.create(model, {
      intraOpNumThreads: threads,
      interOpNumThreads: 1,
      executionMode: "sequential",
      graphOptimizationLevel: "all",
      // Planned memory patterns hold every buffer for the whole step: half as much again, and no faster.
      enableMemPattern: false,
      logSeverityLevel: 3,
      extra: { session: { intra_op: { allow_spinning: "1" } } },
    });
    return new OnnxExecutable(source, fed, makeHost(plan), session);
  }

  async run(feeds: Feeds, into: Feeds = {}): Promise<Record<string, TensorData>> {
    const session = this.#session;
    if (!session) throw new ModelError("this compiled graph was closed", { code: "backend.closed" });
    checkFeeds(this.graph, feeds);
    const results: Record<string, TensorData> = {};
    for (const { name, value } of this.graph.outputs) {
      const { dtype, shape } = this.graph.values[value]!;
      results[name] = into[name] ?? { dtype, shape, data: allocate(dtype, sizeOf(shape)) };
    }
    const { extraFeeds, fetches } = this.host.before(feeds, results);

    const inputs: Record<string, ort.Tensor> = {};
    for (const name of this.fed)
      inputs[feedName(name)] = this.#wrap(feedName(name), (feeds[name] ?? extraFeeds[name])!);
    const outputs: Record<string, ort.Tensor> = {};
    for (const [name, target] of Object.entries(fetches))
      outputs[resultName(name)] = this.#wrap(resultName(name), target);
    await session.run(inputs, outputs);
    this.host.after(feeds, results);
    return results;
  }

  async close(): Promise<void> {
    const session = this.#session;
    this.#session = undefined;
    this.#tensors.clear();
    this.host.close();
    await session?.release();
  }

  /** Tensors over the same array are reused: parameters and gradients stay where they are for the whole run. */
  #wrap(name: string, { dtype, shape, data }: TensorData): ort.Tensor {
    const known = this.#tensors.get(name);
    if (known?.data === data) return known.tensor;
    const { Tensor } = loadRuntime();
    const tensor = new Tensor(dtype as Exclude<DType, "float16">, data as never, shape);
    this.#tensors.set(name, { data, tensor });
    return tensor;
  }
}
