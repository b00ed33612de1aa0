// The engine in a worker thread: graphs block that thread, while this one stays free for data, display,
// signals and network. Requests are answered in order.

import type { Worker } from "node:worker_threads";
import type { TensorData } from "../../tensor/dtype.js";
import type { Graph } from "../../tensor/trace/graph.js";
import {
  ConfigError,
  DataError,
  InternalError,
  ModelError,
  type SpeedtronicError,
  TrainingError,
} from "../../util/errors.js";
import { startWorker } from "../../util/worker.node.js";
import type {
  ArrayPart,
  EngineDescription,
  EngineOptions,
  EngineSnapshot,
  TrainEngine,
  UpdateRequest,
  UpdateResult,
} from "./contract.js";
import type { EngineReply, EngineRequest, ErrorRecord } from "./engine-thread.node.js";

interface Pending {
  resolve(value: unknown): void;
  reject(error: Error): void;
}

/** Starts loading the engine's code at once; `create` says what it is to hold. */
export class WorkerEngine implements TrainEngine {
  readonly #worker: Worker;
  readonly #pending = new Map<number, Pending>();
  #next = 0;
  #ended: Error | undefined;
  #closing: Promise<void> | undefined;

  constructor() {
    this.#worker = startWorker(new URL("./engine-thread.node.js", import.meta.url), "speedtronic-engine");
    this.#worker.on("message", (reply: EngineReply) => this.#settle(reply));
    this.#worker.on("error", (cause) => this.#end("the training thread failed", cause));
    this.#worker.on("exit", () => this.#end("the training thread has ended"));
  }

  async create(options: EngineOptions): Promise<void> {
    await this.#call("create", [options]);
  }

  addProgram(graph: Graph): Promise<number> {
    return this.#call("addProgram", [graph]);
  }

  removeProgram(program: number): Promise<void> {
    return this.#call("removeProgram", [program]);
  }

  update(request: UpdateRequest): Promise<UpdateResult> {
    return this.#call("update", [request]);
  }

  evaluate(
    program: number,
    feeds: Readonly<Record<string, TensorData>>,
  ): Promise<Record<string, TensorData>> {
    return this.#call("evaluate", [program, feeds]);
  }

  readParameters(): Promise<Map<string, TensorData>> {
    return this.#call("readParameters", []);
  }

  writeParameters(values: ReadonlyMap<string, TensorData>, options: { move?: boolean } = {}): Promise<void> {
    return this.#call("writeParameters", [values], options.move ? ownBuffers(values.values()) : []);
  }

  readOptimizer(): Promise<Map<string, TensorData>> {
    return this.#call("readOptimizer", []);
  }

  writeOptimizer(values: ReadonlyMap<string, TensorData>): Promise<void> {
    return this.#call("writeOptimizer", [values]);
  }

  snapshot(reuse: readonly SharedArrayBuffer[] = []): Promise<EngineSnapshot> {
    return this.#call("snapshot", [reuse]);
  }

  writePart(part: ArrayPart, values: Float32Array, length: number): Promise<Float32Array> {
    return this.#call("writePart", [part, values, length], [values.buffer as ArrayBuffer]);
  }

  describe(): Promise<EngineDescription> {
    return this.#call("describe", []);
  }

  /** Lets what was asked before finish; rejects what is asked later. Harmless when called twice. */
  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    if (this.#ended) return;
    try {
      await this.#call("close", []);
    } finally {
      this.#end("the engine was closed");
      await this.#worker.terminate();
    }
  }

  #call<T>(method: EngineRequest["method"], args: readonly unknown[], moved: ArrayBuffer[] = []): Promise<T> {
    if (this.#ended) return Promise.reject(this.#ended);
    return new Promise<T>((resolve, reject) => {
      const id = this.#next++;
      this.#pending.set(id, { resolve: resolve as Pending["resolve"], reject });
      this.#worker.postMessage({ id, method, args } satisfies EngineRequest, moved);
    });
  }

  #settle(reply: EngineReply): void {
    const pending = this.#pending.get(reply.id);
    this.#pending.delete(reply.id);
    if ("error" in reply) pending?.reject(errorOf(reply.error));
    else pending?.resolve(reply.value);
  }

  #end(message: string, cause?: unknown): void {
    if (this.#ended) return;
    this.#ended = new InternalError(message, { code: "engine.ended", cause });
    for (const { reject } of this.#pending.values()) reject(this.#ended);
    this.#pending.clear();
  }
}

/** Buffers that hold one tensor and nothing else: only those can change hands. */
function ownBuffers(tensors: Iterable<TensorData>): ArrayBuffer[] {
  const buffers = [...tensors]
    .filter(({ data }) => data.byteLength === data.buffer.byteLength)
    .map(({ data }) => data.buffer as ArrayBuffer);
  return [...new Set(buffers)];
}

/** The error classes that an engine can raise, by name. */
const errorClasses: Readonly<
  Record<string, new (...args: ConstructorParameters<typeof InternalError>) => SpeedtronicError>
> = {
  ModelError,
  OperatorError: ModelError,
  DataError,
  ConfigError,
  TrainingError,
};

function errorOf(record: ErrorRecord): SpeedtronicError {
  const ErrorClass = errorClasses[record.kind] ?? InternalError;
  const error = new ErrorClass(record.message, { code: record.code, details: record.details });
  if (record.stack) error.stack = record.stack;
  return error;
}
