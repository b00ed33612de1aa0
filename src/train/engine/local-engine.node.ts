// The engine itself, on the thread that makes it. It blocks that thread while graphs run.

import { optimizerNamed } from "../../optim/index.js";
import type { Backend, Executable } from "../../tensor/backends/backend.js";
import { createOnnxBackend, onnxRuntimeVersion } from "../../tensor/backends/onnx/backend.node.js";
import { referenceBackend } from "../../tensor/backends/reference/interpreter.js";
import type { TensorData } from "../../tensor/dtype.js";
import { loadKernels } from "../../tensor/kernels/load.node.js";
import { formatShape, sameShape } from "../../tensor/shape.js";
import type { Graph } from "../../tensor/trace/graph.js";
import { InternalError, invariant, ModelError } from "../../util/errors.js";
import {
  type ArrayPart,
  bufferValue,
  countDivisor,
  countResult,
  type EngineOptions,
  type EngineSnapshot,
  gradientResult,
  lossResult,
  type Microbatch,
  parameterFeed,
  type TrainEngine,
  type UpdateRequest,
  type UpdateResult,
} from "./contract.js";
import { beforeUpdate, type LayerNorms } from "./layer-norms.js";
import { ParameterStore } from "./parameter-store.js";
import { Updater } from "./updater.js";

interface Program {
  readonly executable: Executable;
  /** Names of the parameters that the graph reads. */
  readonly parameters: readonly string[];
  /** Names of the parameters whose gradients it gives. */
  readonly gradients: readonly string[];
}

interface MicrobatchResult {
  readonly loss: number;
  readonly targets: number;
  readonly metrics: Record<string, number>;
  readonly buffers: Record<string, TensorData>;
}

export async function createLocalEngine(options: EngineOptions): Promise<TrainEngine> {
  const kernels = await loadKernels();
  const { optimizer } = options;
  const ruleOf = (rule = optimizer?.name ?? "") => optimizerNamed(rule);
  for (const rule of new Set([undefined, ...options.parameters.map((parameter) => parameter.rule)]))
    if (optimizer && !ruleOf(rule))
      throw new InternalError(`no optimizer ${rule ?? optimizer.name}`, { code: "internal.optimizer" });
  const store = new ParameterStore(
    kernels,
    options.parameters,
    ({ rule }) => (optimizer && ruleOf(rule)?.slots) ?? [],
    optimizer !== undefined,
  );
  const backend =
    options.backend === "reference"
      ? referenceBackend
      : await createOnnxBackend({
          threads: options.threads,
          bank: store.banks[0]!.bank,
          bankOf: (result) => store.bankOf(result),
        });
  return new LocalEngine(options, store, backend);
}

class LocalEngine implements TrainEngine {
  readonly #programs = new Map<number, Program>();
  readonly #updater: Updater | undefined;
  #next = 0;

  constructor(
    private readonly options: EngineOptions,
    private readonly store: ParameterStore,
    private readonly backend: Backend,
  ) {
    if (options.optimizer) this.#updater = new Updater(options.optimizer, store, backend);
  }

  async addProgram(graph: Graph): Promise<number> {
    const executable = await this.backend.compile(graph);
    const fed = new Set(graph.inputs.map((i) => i.name));
    const results = new Set(graph.outputs.map((o) => o.name));
    const program = {
      executable,
      parameters: this.store.names().filter((name) => fed.has(parameterFeed(name))),
      gradients: this.store.names().filter((name) => results.has(gradientResult(name))),
    };
    this.#programs.set(this.#next, program);
    return this.#next++;
  }

  async removeProgram(program: number): Promise<void> {
    const entry = this.#program(program);
    this.#programs.delete(program);
    await entry.executable.close();
  }

  async update(request: UpdateRequest): Promise<UpdateResult> {
    const updater = this.#updater;
    invariant(updater, "an engine without optimizer cannot update");
    const started = performance.now();
    const results: MicrobatchResult[] = [];
    // What one micro-batch makes of a running statistic, the next one reads.
    const buffers: Record<string, TensorData> = {};
    for (const [index, { feeds, ...microbatch }] of request.microbatches.entries()) {
      const fed = { ...microbatch, feeds: { ...feeds, ...buffers } };
      const result = await this.#accumulate(fed, index === 0, request.averaging);
      Object.assign(buffers, result.buffers);
      results.push(result);
    }
    const graphDone = performance.now();

    const targets = results.reduce((sum, r) => sum + r.targets, 0);
    const perMicrobatch = request.averaging === "microbatches";
    const divisor = perMicrobatch ? results.length : countDivisor(targets);
    const means = results.map((r) => (perMicrobatch ? r.loss / countDivisor(r.targets) : r.loss));
    const loss = means.reduce((sum, x) => sum + x, 0) / divisor;
    const gradNorm = this.#gradientNorm() / divisor;
    const applied = Number.isFinite(loss) && Number.isFinite(gradNorm);
    let layers: (() => LayerNorms) | undefined;
    if (applied) {
      if (request.layerNorms) layers = beforeUpdate(this.store, divisor);
      const { gradClip } = request;
      const clip = gradClip === null ? 1 : Math.min(1, gradClip / (gradNorm + 1e-6));
      const step = { lr: request.lr, count: request.count, gradScale: clip / divisor };
      await updater.update(step);
    }
    return {
      applied,
      loss,
      targets,
      gradNorm,
      metrics: averageMetrics(results),
      buffers,
      times: { graphMs: graphDone - started, updateMs: performance.now() - graphDone },
      ...(layers && { layers: layers() }),
    };
  }

  async evaluate(
    program: number,
    feeds: Readonly<Record<string, TensorData>>,
  ): Promise<Record<string, TensorData>> {
    const { executable, parameters } = this.#program(program);
    return executable.run(this.#withParameters(parameters, feeds));
  }

  async readParameters(): Promise<Map<string, TensorData>> {
    return new Map(this.store.names().map((name) => [name, copyOf(this.store.parameter(name))]));
  }

  async writeParameters(values: ReadonlyMap<string, TensorData>): Promise<void> {
    const pairs = [...values].map(
      ([name, value]) =>
        [
          this.#target("parameter", name, this.store.names(), () => this.store.parameter(name), value),
          value,
        ] as const,
    );
    for (const [target, value] of pairs) target.data.set(value.data);
  }

  async readOptimizer(): Promise<Map<string, TensorData>> {
    return new Map(
      this.store
        .trainableNames()
        .flatMap((name) =>
          this.store.slotsOf(name).map((slot) => [`${name}.${slot}`, copyOf(this.store.slot(slot, name))]),
        ),
    );
  }

  async writeOptimizer(values: ReadonlyMap<string, TensorData>): Promise<void> {
    const places = new Map(
      this.store
        .trainableNames()
        .flatMap((name) => this.store.slotsOf(name).map((slot) => [`${name}.${slot}`, { name, slot }])),
    );
    for (const [key, value] of values)
      this.#target(
        "optimizer state",
        key,
        [...places.keys()],
        () => {
          const { name, slot } = places.get(key)!;
          return this.store.slot(slot, name);
        },
        value,
      );
    for (const [key, { name, slot }] of places) {
      const value = values.get(key);
      const target = this.store.slot(slot, name).data;
      if (value) target.set(value.data);
      else target.fill(0);
    }
  }

  async snapshot(reuse: readonly SharedArrayBuffer[] = []): Promise<EngineSnapshot> {
    return this.store.snapshot(reuse);
  }

  async writePart(
    { parameter, slot, begin }: ArrayPart,
    values: Float32Array,
    length: number,
  ): Promise<Float32Array> {
    const { store } = this;
    const isKnown = slot === null ? store.has(parameter) : store.slotsOf(parameter).includes(slot);
    if (!isKnown)
      throw new ModelError(`the model has no ${slot === null ? "parameter" : slot} named "${parameter}"`, {
        code: "engine.unknown_tensor",
        details: { name: parameter },
      });
    const target = slot === null ? store.parameter(parameter) : store.slot(slot, parameter);
    (target.data as Float32Array).set(values.subarray(0, length), begin);
    return values;
  }

  async describe() {
    const onnx = this.options.backend === "onnx";
    return {
      slots: new Map(this.store.trainableNames().map((name) => [name, this.store.slotsOf(name)])),
      snapshotBytes: this.store.snapshotBytes(),
      backend: this.backend.name,
      threads: onnx ? this.options.threads : 1,
      runtime: onnx ? `onnxruntime-node ${onnxRuntimeVersion()}` : "reference interpreter",
    };
  }

  async close(): Promise<void> {
    for (const program of [...this.#programs.keys()]) await this.removeProgram(program);
    await this.#updater?.close();
  }

  /** Runs one microbatch and leaves Σ (so far) of its weighted gradients in the store's gradient arrays. */
  async #accumulate(
    microbatch: Microbatch,
    isFirst: boolean,
    averaging: UpdateRequest["averaging"],
  ): Promise<MicrobatchResult> {
    const { executable, parameters, gradients } = this.#program(microbatch.program);
    const into: Record<string, TensorData> = {};
    for (const name of gradients)
      into[gradientResult(name)] = isFirst ? this.store.gradient(name) : this.store.accumulator(name);
    // Making an accumulator may have grown a bank: take the views afresh.
    for (const name of gradients)
      into[gradientResult(name)] = isFirst ? this.store.gradient(name) : this.store.accumulator(name);
    const results = await executable.run(this.#withParameters(parameters, microbatch.feeds), into);

    const count = results[countResult]?.data[0];
    const isSummed = count !== undefined;
    const targets = count ?? microbatch.weight;
    const loss = results[lossResult]!.data[0]! * (isSummed ? 1 : targets);
    const weight = (isSummed ? 1 : targets) / (averaging === "microbatches" ? countDivisor(targets) : 1);
    for (const arrays of this.store.banks) {
      const { kernels } = arrays.bank;
      if (!isFirst) kernels.addScaled(arrays.gradients, arrays.accumulator!, arrays.trainable, weight);
      else if (weight !== 1) kernels.scale(arrays.gradients, arrays.trainable, weight);
    }
    const metrics: Record<string, number> = {};
    const buffers: Record<string, TensorData> = {};
    const own = new Set([lossResult, countResult, ...gradients.map(gradientResult)]);
    for (const [name, result] of Object.entries(results)) {
      if (own.has(name)) continue;
      if (name.startsWith(bufferValue(""))) buffers[name] = copyOf(result);
      else if (result.shape.length === 0) metrics[name] = result.data[0]!;
    }
    return { loss, targets, metrics, buffers };
  }

  #gradientNorm(): number {
    let squares = 0;
    for (const { bank, gradients, trainable } of this.store.banks)
      squares += bank.kernels.sumOfSquares(gradients, trainable);
    return Math.sqrt(squares);
  }

  #withParameters(
    names: readonly string[],
    feeds: Readonly<Record<string, TensorData>>,
  ): Record<string, TensorData> {
    const all: Record<string, TensorData> = { ...feeds };
    for (const name of names) all[parameterFeed(name)] = this.store.parameter(name);
    return all;
  }

  #program(program: number): Program {
    const entry = this.#programs.get(program);
    invariant(entry, `no program ${program}`);
    return entry;
  }

  /** The array that `value` is to replace; ModelError when there is none or its shape differs. */
  #target(
    what: string,
    name: string,
    known: readonly string[],
    view: () => TensorData,
    value: TensorData,
  ): TensorData {
    if (!known.includes(name))
      throw new ModelError(`the model has no ${what} named "${name}"`, {
        code: "engine.unknown_tensor",
        details: { name },
      });
    const target = view();
    if (value.dtype !== "float32" || !sameShape(value.shape, target.shape))
      throw new ModelError(
        `"${name}" must be float32${formatShape(target.shape)}, got ${value.dtype}${formatShape(value.shape)}`,
        { code: "engine.wrong_tensor", details: { name } },
      );
    return target;
  }
}

const copyOf = (t: TensorData): TensorData => ({ ...t, data: t.data.slice() });

function averageMetrics(results: readonly MicrobatchResult[]): Record<string, number> {
  const sums: Record<string, number> = {};
  for (const { metrics } of results)
    for (const [name, value] of Object.entries(metrics))
      sums[name] = (sums[name] ?? 0) + value / results.length;
  return sums;
}
