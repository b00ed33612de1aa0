// A model's state as a node handles it: tensors in memory by name, with every name of a tied tensor. The arithmetic of
// an install, and states as files.

import { toStream } from "../../formats/safetensors/container.js";
import {
  openSafetensors,
  type SafetensorsReader,
  type TensorReader,
  writeSafetensors,
} from "../../formats/safetensors/index.js";
import { allocate, isFloating, type TensorData, type TypedArray } from "../../tensor/dtype.js";
import { type BufferPolicies, policyOf } from "../wire/buffer-merge.js";
import { Lockstep } from "../wire/lockstep.js";
import { asReader, realEntries, requireSameTensors } from "../wire/state.js";
import { NodeError } from "./errors.js";
import { OTHER_MODEL_ADVICE } from "./other-model.js";
import type { FileRoom } from "./outbox.js";

/** Names of one tensor have one object. */
export type ModelState = ReadonlyMap<string, TensorData>;

/**
 * The state `global` - sum of `deltas`, in the dtypes of `like`; tensors that are not floating are those of `global`.
 * Added up in double precision, rounded once. Buffers with a policy are those of `global`, too.
 */
export async function subtractDeltas(
  global: TensorReader,
  deltas: readonly TensorReader[],
  like: ModelState,
  buffers?: BufferPolicies | undefined,
): Promise<Map<string, TensorData>> {
  const whole = new Lockstep([global]);
  const lockstep = new Lockstep([global, ...deltas]);
  const done = new Map<TypedArray, TensorData>();
  const state = new Map<string, TensorData>();
  for (const [name, old] of like) {
    const known = done.get(old.data);
    const value = known ?? { ...old, data: allocate(old.dtype, old.data.length) as TypedArray };
    state.set(name, value);
    if (known !== undefined) continue;
    done.set(old.data, value);
    const isBuffer = policyOf(buffers, name) !== undefined;
    if (isFloating(old.dtype)) await fillDifference(isBuffer ? whole : lockstep, name, value.data);
    else new Uint8Array(value.data.buffer).set((await global.read(name)).bytes);
  }
  return state;
}

/**
 * `target` - (baseline - current) for the floating tensors, into the memory of `current`; others become those of
 * `target`, and so do buffers with a policy: a statistic plus progress is none. A tensor whose progress is not finite is taken from `target` as it is; the result counts them.
 */
export function carryProgress(
  target: ModelState,
  baseline: ModelState,
  current: ModelState,
  buffers?: BufferPolicies | undefined,
): number {
  const done = new Set<TypedArray>();
  let brokenTensors = 0;
  for (const [name, { data }] of current) {
    if (done.has(data)) continue;
    done.add(data);
    const [to, from] = [target.get(name)!, baseline.get(name)!.data];
    const isWeights = isFloating(to.dtype) && policyOf(buffers, name) === undefined;
    if (isWeights && carry(data, to.data, from)) continue;
    if (isWeights) brokenTensors += 1;
    data.set(to.data);
  }
  return brokenTensors;
}

/** Gives `target` what the node itself has of the buffers that are its own. */
export function keepLocalBuffers(target: ModelState, current: ModelState, buffers?: BufferPolicies): void {
  for (const [name, { data }] of target)
    if (policyOf(buffers, name) === "local") data.set(current.get(name)!.data);
}

function carry(current: TypedArray, target: TypedArray, baseline: TypedArray): boolean {
  for (let i = 0; i < current.length; i++) {
    const progress = Math.fround(baseline[i]! - current[i]!);
    const value = Math.fround(target[i]! - progress);
    if (!Number.isFinite(value)) return false;
    current[i] = value;
  }
  return true;
}

async function fillDifference(lockstep: Lockstep, name: string, out: TypedArray): Promise<void> {
  let offset = 0;
  for await (const [global, ...deltas] of lockstep.pieces(name)) {
    for (let i = 0; i < global!.length; i++) {
      let value = global![i]!;
      for (const delta of deltas) value -= delta[i]!;
      out[offset + i] = value;
    }
    offset += global!.length;
  }
}

/**
 * Checks that a file holds a whole state of this model: the same names and shapes, floating tensors where the model has
 * them and the same dtype elsewhere, and no value that is not finite.
 * @throws WireError, NodeError `node.refused_version`, `node.other_model`.
 */
export async function verifyState(file: TensorReader, like: ModelState, title: string): Promise<void> {
  const own = asReader(like);
  requireSameTensors(
    { name: "this node's model", entries: own.entries },
    { name: title, entries: file.entries },
  );
  const floating = realEntries(file, title);
  for (const [name, { dtype }] of own.entries) {
    const found = file.entry(name).dtype;
    const isSame = isFloating(like.get(name)!.dtype) ? floating.has(name) : found === dtype;
    if (isSame) continue;
    throw new NodeError(
      "other_model",
      `${title}: tensor "${name}" is ${found}, this node's is ${dtype}. ${OTHER_MODEL_ADVICE}`,
      {
        details: { tensor: name, found, expected: dtype },
      },
    );
  }
  const lockstep = new Lockstep([file]);
  for (const name of floating.keys()) {
    for await (const [values] of lockstep.pieces(name)) {
      if (isFinitePiece(values!)) continue;
      throw new NodeError("refused_version", `${title}: tensor "${name}" has NaN or infinity`, {
        details: { tensor: name },
      });
    }
  }
}

function isFinitePiece(values: Float32Array): boolean {
  let sum = 0;
  // 0 times a finite number is 0, and NaN for all others.
  for (let i = 0; i < values.length; i++) sum += values[i]! * 0;
  return sum === 0;
}

/** Writes a state into a room. */
export async function saveState(room: FileRoom, name: string, state: ModelState): Promise<void> {
  const streams = [...state].map(([key, value]) => toStream(key, value));
  await room.write(name, (sink) => writeSafetensors(sink, streams));
}

/**
 * Reads a state that {@link saveState} wrote.
 * @throws NodeError, WireError, SafetensorsError.
 */
export async function loadState(
  room: FileRoom,
  name: string,
  like: ModelState,
): Promise<Map<string, TensorData>> {
  const reader = await openRoomFile(room, name);
  try {
    requireSameTensors(
      { name: "this model", entries: asReader(like).entries },
      { name, entries: reader.entries },
    );
    return await subtractDeltas(reader, [], like);
  } finally {
    await reader.close();
  }
}

export async function openRoomFile(room: FileRoom, name: string): Promise<SafetensorsReader> {
  const source = await room.open(name);
  try {
    return await openSafetensors(source);
  } catch (error) {
    await source.close?.();
    throw error;
  }
}
