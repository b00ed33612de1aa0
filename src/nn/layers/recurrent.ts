// LSTM and GRU over time-major sequences, unrolled into the graph step by step. Names, layouts and the order of gates
// are PyTorch's, so that weights are exchanged as they are.
// Dimension names: T positions, B batch, I inputs, H hidden values, G gates.

import {
  add,
  concat,
  matmul,
  mul,
  type Parameter,
  reshape,
  sigmoid,
  slice,
  split,
  stack,
  sub,
  type Tensor,
  tanh,
  zeros,
} from "../../tensor/index.js";
import { ModelError } from "../../util/errors.js";
import { createParameter } from "../init/initialize.js";
import { uniform } from "../init/initializers.js";
import { Module } from "../module.js";
import { drawDropoutMask } from "./dropout.js";
import { requireRate, requireSize } from "./sizes.js";

export interface RecurrentOptions {
  /** Layers on top of one another. Default 1. */
  layers?: number;
  /** A second pass from the end; results stand side by side. Default false. */
  bidirectional?: boolean;
  /** Dropped share between layers in training. Default 0. */
  dropout?: number;
}

interface Pass {
  readonly weightInput: Parameter;
  readonly weightHidden: Parameter;
  readonly biasInput: Parameter;
  readonly biasHidden: Parameter;
  readonly isReverse: boolean;
}

/** State of one step: hidden values, and what else the cell keeps. */
type State = readonly Tensor[];

abstract class Recurrent extends Module {
  readonly inputs: number;
  readonly hidden: number;
  readonly #names = new Map<string, Parameter>();
  readonly #layers: (readonly Pass[])[] = [];
  readonly #dropout: number;

  /** `gates`: rows of the weights, in multiples of `hidden`. */
  constructor(owner: string, gates: number, inputs: number, hidden: number, options: RecurrentOptions) {
    super();
    const { layers = 1, bidirectional = false, dropout = 0 } = options;
    for (const [what, value] of Object.entries({ inputs, hidden, layers })) requireSize(owner, what, value);
    requireRate(owner, dropout);
    this.inputs = inputs;
    this.hidden = hidden;
    this.#dropout = dropout;
    const bound = 1 / Math.sqrt(hidden);
    const init = uniform({ low: -bound, high: bound });
    const directions = bidirectional ? [false, true] : [false];
    for (let layer = 0; layer < layers; layer++)
      this.#layers.push(
        directions.map((isReverse): Pass => {
          const width = layer === 0 ? inputs : hidden * directions.length;
          const make = (name: string, shape: readonly number[]) => {
            const parameter = createParameter(shape, init);
            this.#names.set(`${name}_l${layer}${isReverse ? "_reverse" : ""}`, parameter);
            return parameter;
          };
          return {
            weightInput: make("weight_ih", [gates * hidden, width]),
            weightHidden: make("weight_hh", [gates * hidden, hidden]),
            biasInput: make("bias_ih", [gates * hidden]),
            biasHidden: make("bias_hh", [gates * hidden]),
            isReverse,
          };
        }),
      );
  }

  /** `fromInput` [B, G·H] is x·Wᵀ with its bias, for this position. The first value of the state is the result. */
  protected abstract step(fromInput: Tensor, state: State, pass: Pass): State;

  /** Values that the cell keeps. */
  protected abstract get stateSize(): number;

  protected override fields(): Iterable<readonly [string, unknown]> {
    return this.#names;
  }

  /** x: [T, B, inputs]. Result: [T, B, hidden], twice as wide if it is bidirectional. Starts from zeros. */
  forward(x: Tensor): Tensor {
    if (x.rank !== 3 || x.shape[2] !== this.inputs)
      throw new ModelError(
        `${this.constructor.name} needs [T, B, ${this.inputs}], got [${x.shape.join(", ")}]`,
        { code: "model.recurrent", details: { shape: x.shape, inputs: this.inputs } },
      );
    return this.#layers.reduce((sequence, passes, layer) => {
      const mask = layer === 0 ? undefined : drawDropoutMask(sequence.shape, this.#dropout);
      const given = mask ? mul(sequence, mask) : sequence;
      const results = passes.map((pass) => this.#run(given, pass));
      return results.length === 1 ? results[0]! : concat(results, 2);
    }, x);
  }

  #run(x_TBI: Tensor, pass: Pass): Tensor {
    const [T, B] = x_TBI.shape as [number, number, number];
    // All positions in one product; what remains for each step is the product with its state.
    const fromInput = add(matmul(x_TBI, pass.weightInput, { transB: true }), pass.biasInput);
    let state: State = Array.from({ length: this.stateSize }, () => zeros([B, this.hidden]));
    const results = new Array<Tensor>(T);
    for (let i = 0; i < T; i++) {
      const t = pass.isReverse ? T - 1 - i : i;
      const own = reshape(slice(fromInput, 0, t, t + 1), [B, fromInput.shape[2]!]);
      state = this.step(own, state, pass);
      results[t] = state[0]!;
    }
    return stack(results, 0);
  }
}

const fromState = (h: Tensor, { weightHidden, biasHidden }: Pass): Tensor =>
  add(matmul(h, weightHidden, { transB: true }), biasHidden);

/** Long short-term memory. Gates: input, forget, cell, output. */
export class Lstm extends Recurrent {
  constructor(inputs: number, hidden: number, options: RecurrentOptions = {}) {
    super("Lstm", 4, inputs, hidden, options);
  }

  protected override get stateSize(): number {
    return 2;
  }

  protected override step(fromInput: Tensor, [h, c]: State, pass: Pass): State {
    const [input, forget, cell, output] = split(add(fromInput, fromState(h!, pass)), 4, 1);
    const kept = add(mul(sigmoid(forget!), c!), mul(sigmoid(input!), tanh(cell!)));
    return [mul(sigmoid(output!), tanh(kept)), kept];
  }
}

/** Gated recurrent unit. Gates: reset, update, new. */
export class Gru extends Recurrent {
  constructor(inputs: number, hidden: number, options: RecurrentOptions = {}) {
    super("Gru", 3, inputs, hidden, options);
  }

  protected override get stateSize(): number {
    return 1;
  }

  protected override step(fromInput: Tensor, [h]: State, pass: Pass): State {
    const [resetInput, updateInput, newInput] = split(fromInput, 3, 1);
    const [resetState, updateState, newState] = split(fromState(h!, pass), 3, 1);
    const reset = sigmoid(add(resetInput!, resetState!));
    const update = sigmoid(add(updateInput!, updateState!));
    const fresh = tanh(add(newInput!, mul(reset, newState!)));
    // (1 − update)·fresh + update·h
    return [add(fresh, mul(update, sub(h!, fresh)))];
  }
}
