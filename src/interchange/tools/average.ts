// The average of several models, tensor by tensor and piece by piece, in float64 and rounded once. Tensors that are
// no floats (counters, masks) come from the last model.

import {
  readPieces,
  type TensorEntry,
  type TensorPiece,
  type TensorReader,
  type TensorStream,
} from "../../formats/safetensors/index.js";
import { toolError } from "./errors.js";
import { decodeValues, encodeValues, isFloatTarget } from "./values.js";

export interface AverageInput {
  /** For messages. */
  readonly label: string;
  readonly reader: TensorReader;
}

export interface AveragePlan {
  readonly streams: readonly TensorStream[];
  /** Names of the tensors that were taken from the last input. */
  readonly taken: readonly string[];
}

/** Every model counts the same. */
export function uniformWeights(count: number): number[] {
  return new Array<number>(count).fill(1 / count);
}

/**
 * Weights of an exponential moving average over models from the oldest to the newest: average = decay × average +
 * (1 - decay) × next, starting with the oldest.
 */
export function emaWeights(count: number, decay: number): number[] {
  return Array.from({ length: count }, (_, i) => (i === 0 ? 1 : 1 - decay) * decay ** (count - 1 - i));
}

/**
 * Plans the weighted sum. Names, shapes and dtypes must be the same everywhere.
 * @throws ToolError `tools.not_alike` naming the first difference.
 */
export function planAverage(inputs: readonly AverageInput[], weights: readonly number[]): AveragePlan {
  const last = inputs[inputs.length - 1]!;
  const taken: string[] = [];
  for (const input of inputs) if (input !== last) requireAlike(input, last);
  const streams = [...last.reader.entries.values()].map((entry): TensorStream => {
    const { name, dtype, shape } = entry;
    if (isFloatTarget(dtype) || dtype === "C64") {
      return { name, dtype, shape, data: () => weightedSum(inputs, weights, entry) };
    }
    taken.push(name);
    return { name, dtype, shape, data: () => bytesOf(last.reader, name) };
  });
  return { streams, taken };
}

async function* bytesOf(reader: TensorReader, name: string): AsyncGenerator<Uint8Array, void, undefined> {
  for await (const { bytes } of readPieces(reader, [name])) yield bytes;
}

async function* weightedSum(
  inputs: readonly AverageInput[],
  weights: readonly number[],
  { name, dtype }: TensorEntry,
): AsyncGenerator<Uint8Array, void, undefined> {
  const sources = inputs.map(({ reader }) => readPieces(reader, [name], { ahead: 1 }));
  try {
    for (;;) {
      const pieces: TensorPiece[] = [];
      for (const source of sources) {
        const next = await source.next();
        if (next.done !== true) pieces.push(next.value);
      }
      if (pieces.length === 0) return;
      const values = pieces.map(({ bytes }) => decodeValues(dtype, bytes));
      const sum = new Float64Array(values[0]!.length);
      for (const [k, part] of values.entries()) {
        const weight = weights[k]!;
        for (let i = 0; i < sum.length; i++) sum[i]! += weight * part[i]!;
      }
      // A complex tensor is pairs of float32.
      yield encodeValues(isFloatTarget(dtype) ? dtype : "F32", sum);
    }
  } finally {
    for (const source of sources) await source.return();
  }
}

function requireAlike({ label, reader }: AverageInput, last: AverageInput): void {
  for (const { name, dtype, shape } of last.reader.entries.values()) {
    const other = reader.entries.get(name);
    if (other === undefined)
      throw notAlike(`${label} has no tensor "${name}", which ${last.label} has`, name);
    if (other.dtype !== dtype || other.shape.join() !== shape.join()) {
      throw notAlike(
        `tensor "${name}" is ${other.dtype} [${other.shape.join(",")}] in ${label} and ${dtype} [${shape.join(",")}] in ${last.label}`,
        name,
      );
    }
  }
  for (const name of reader.entries.keys()) {
    if (!last.reader.entries.has(name)) {
      throw notAlike(`${last.label} has no tensor "${name}", which ${label} has`, name);
    }
  }
}

function notAlike(what: string, tensor: string) {
  return toolError("not_alike", `${what}: only models with the same tensors can be averaged`, { tensor });
}
