// Compiled graphs by the shapes of their inputs: traced when a shape is first seen, kept up to a bound.

import type { TensorData } from "../tensor/dtype.js";
import { rngInputName } from "../tensor/trace/context.js";
import type { Graph } from "../tensor/trace/graph.js";
import type { TrainEngine } from "./engine/contract.js";
import type { BatchTypes } from "./trace-model.js";

export interface Program {
  readonly id: number;
  /** Whether its graph takes the generator state. */
  readonly isRandom: boolean;
  readonly graph: Graph;
  /** Present values of what else it reads, beside batch and parameters. */
  feeds(): Readonly<Record<string, TensorData>>;
}

/** Shapes in use at once: full and last batch, for training and evaluation, with room for odd lengths. */
export const defaultProgramLimit = 8;

export class ProgramCache {
  readonly #programs = new Map<string, Promise<Program>>();

  constructor(
    private readonly engine: TrainEngine,
    private readonly trace: (types: BatchTypes) => Graph,
    private readonly limit = defaultProgramLimit,
    private readonly feeds: (graph: Graph) => Readonly<Record<string, TensorData>> = () => ({}),
  ) {}

  async get(batch: BatchTypes): Promise<Program> {
    const key = Object.keys(batch)
      .sort()
      .map((name) => `${name}:${batch[name]!.dtype}[${batch[name]!.shape.join(",")}]`)
      .join(" ");
    const known = this.#programs.get(key);
    if (known) {
      // Most recently used last.
      this.#programs.delete(key);
      this.#programs.set(key, known);
      return known;
    }
    const made = this.#make(batch);
    this.#programs.set(key, made);
    made.catch(() => this.#programs.delete(key));
    await this.#evict();
    return made;
  }

  async close(): Promise<void> {
    const programs = [...this.#programs.values()];
    this.#programs.clear();
    for (const program of programs) await this.#remove(program);
  }

  async #make(batch: BatchTypes): Promise<Program> {
    const graph = this.trace(batch);
    const isRandom = graph.inputs.some((i) => i.name === rngInputName);
    return { id: await this.engine.addProgram(graph), isRandom, graph, feeds: () => this.feeds(graph) };
  }

  async #evict(): Promise<void> {
    while (this.#programs.size > this.limit) {
      const [key, oldest] = this.#programs.entries().next().value!;
      this.#programs.delete(key);
      await this.#remove(oldest);
    }
  }

  async #remove(program: Promise<Program>): Promise<void> {
    const made = await program.catch(() => undefined);
    if (made) await this.engine.removeProgram(made.id);
  }
}
