// An outer step into two canonical files at once, in one pass over the inputs: the new global state (with all that is
// not floating, unchanged) and the new momentum.

import {
  type ByteSink,
  type MetadataInput,
  type TensorStream,
  tensorStreams,
  writeSafetensors,
} from "../../formats/safetensors/index.js";
import { type OuterPiece, type OuterStep, type OuterStepInputs, outerStep } from "./outer-step.js";
import { asReader } from "./state.js";

export interface OuterStepSinks {
  readonly state: ByteSink;
  readonly momentum: ByteSink;
  /** Header metadata. Default: none, which is what Python writes for the state. */
  readonly stateMetadata?: MetadataInput;
  readonly momentumMetadata?: MetadataInput;
}

/** Sizes of the files written. */
export interface OuterStepSizes {
  readonly stateBytes: number;
  readonly momentumBytes: number;
}

/**
 * Computes and writes. After an error both sinks have parts of files, which their owner must throw away. A state with
 * floating tensors of several dtypes takes two passes, since its file has another order than the momentum's.
 * @throws WireError as `outerStep` does; SafetensorsError; errors of sinks and readers pass through.
 */
export async function writeOuterStep(
  inputs: OuterStepInputs,
  { state, momentum, stateMetadata = {}, momentumMetadata = {} }: OuterStepSinks,
): Promise<OuterStepSizes> {
  const step = outerStep(inputs);
  const reader = asReader(inputs.state);
  const rest = tensorStreams(
    reader,
    [...reader.entries.keys()].filter((name) => !step.entries.has(name)),
  );
  const isOneDtype = new Set([...step.entries.values()].map(({ dtype }) => dtype)).size <= 1;
  if (!isOneDtype) {
    const lanes = (pick: (piece: OuterPiece) => Uint8Array) => (name: string) =>
      mapped(step.pieces(name), pick);
    const stateStreams = [...rest, ...streamsOf(step, lanes(stateBytes), false)];
    const stateSize = await writeSafetensors(state, stateStreams, stateMetadata);
    const momentumStreams = streamsOf(step, lanes(momentumBytes), true);
    return {
      stateBytes: stateSize,
      momentumBytes: await writeSafetensors(momentum, momentumStreams, momentumMetadata),
    };
  }
  const pair = new Pair(step);
  const sizes = await Promise.allSettled([
    pair.guard(
      writeSafetensors(
        state,
        [...rest, ...streamsOf(step, (name) => pair.lane(0, name), false)],
        stateMetadata,
      ),
    ),
    pair.guard(
      writeSafetensors(
        momentum,
        streamsOf(step, (name) => pair.lane(1, name), true),
        momentumMetadata,
      ),
    ),
  ]);
  await pair.close();
  if (pair.failure !== undefined) throw pair.failure.error;
  const [stateSize, momentumSize] = sizes.map((size) => (size as PromiseFulfilledResult<number>).value);
  return { stateBytes: stateSize!, momentumBytes: momentumSize! };
}

const stateBytes = (piece: OuterPiece) => piece.state;
const momentumBytes = ({ momentum: { buffer, byteOffset, byteLength } }: OuterPiece) =>
  new Uint8Array(buffer, byteOffset, byteLength);

function streamsOf(
  step: OuterStep,
  open: (name: string) => AsyncGenerator<Uint8Array, void, undefined>,
  isMomentum: boolean,
): TensorStream[] {
  return [...step.entries.values()].map(({ name, dtype, shape }) => ({
    name,
    dtype: isMomentum ? "F32" : dtype,
    shape,
    data: () => open(name),
  }));
}

async function* mapped(
  pieces: AsyncGenerator<OuterPiece, void, undefined>,
  pick: (piece: OuterPiece) => Uint8Array,
): AsyncGenerator<Uint8Array, void, undefined> {
  for await (const piece of pieces) yield pick(piece);
}

type Step = IteratorResult<OuterPiece, void>;

/**
 * One run of pieces for two writers that take the tensors in the same order: a piece is computed when both of them ask
 * for it, since then both are done with the one before, whose memory it may use.
 */
class Pair {
  readonly #step: OuterStep;
  #run: AsyncGenerator<OuterPiece, void, undefined> | undefined;
  #current: Promise<Step> | undefined;
  /** Which lane has asked for the next piece. */
  #asked: [boolean, boolean] = [false, false];
  #waiting: (() => void) | undefined;
  /** What ended the work; both lanes stop at it. */
  failure: { readonly error: unknown } | undefined;

  constructor(step: OuterStep) {
    this.#step = step;
  }

  async *lane(index: 0 | 1, name: string): AsyncGenerator<Uint8Array, void, undefined> {
    for (;;) {
      const next = await this.#take(index, name);
      if (next.done === true) return;
      yield (index === 0 ? stateBytes : momentumBytes)(next.value);
    }
  }

  /** Ends the other writer when one fails. */
  async guard<T>(writing: Promise<T>): Promise<T> {
    try {
      return await writing;
    } catch (error) {
      this.failure ??= { error };
      this.#wake();
      throw error;
    }
  }

  /** Ends a run that was left half way, and waits for its reads. */
  async close(): Promise<void> {
    await this.#run?.return();
  }

  async #take(index: 0 | 1, name: string): Promise<Step> {
    this.#stopIfFailed();
    this.#asked[index] = true;
    if (this.#asked[0] && this.#asked[1]) {
      this.#asked = [false, false];
      this.#run ??= this.#step.pieces(name);
      this.#current = this.#run.next();
      // The other lane sees a failure as well.
      this.#current.catch(() => undefined);
      this.#wake();
    } else {
      await new Promise<void>((resolve) => {
        this.#waiting = resolve;
      });
      this.#stopIfFailed();
    }
    const step = await this.#current!;
    if (step.done === true) this.#run = undefined;
    return step;
  }

  #wake(): void {
    const waiting = this.#waiting;
    this.#waiting = undefined;
    waiting?.();
  }

  #stopIfFailed(): void {
    if (this.failure !== undefined) throw this.failure.error;
  }
}
