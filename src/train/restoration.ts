// Putting a checkpoint back into model and engine: everything is compared first, then streamed in piece by piece, so
// that a resume needs no second copy of the state. What cannot fit is refused while nothing has been touched.

import { environmentNotes, judgeResume } from "../checkpoint/compare.js";
import type { Environment, Fingerprint } from "../checkpoint/content.js";
import type { OpenedCheckpoint } from "../checkpoint/load.js";
import { planLoad } from "../checkpoint/load-weights.js";
import { canonicalNames } from "../checkpoint/names/index.js";
import type { StoredTensors } from "../checkpoint/stored-tensors.js";
import type { TrainableModel } from "../nn/contract.js";
import type { StateEntry } from "../nn/state-dict.js";
import type { TensorData } from "../tensor/dtype.js";
import { formatShape, sameShape, sizeOf } from "../tensor/shape.js";
import { CheckpointError } from "../util/errors.js";
import type { TrainEngine } from "./engine/contract.js";

export interface ResumeTerms {
  readonly fingerprint: Fingerprint;
  readonly environment: Environment;
  /** Fields of the fingerprint whose difference is meant; `optimizer.state` for moments that do not fit. */
  readonly acceptDifferences: readonly string[];
  /** Names of tensors that checkpoints do not hold: the model has their values already. */
  readonly leavesOut: ReadonlySet<string>;
}

export interface Restoration {
  /** What is worth telling. */
  readonly notes: readonly string[];
  /** Gives modules their state outside tensors back; a module may refuse, and then nothing has changed. */
  applyModules(): void;
  /** Streams the tensors in. When it throws, model and engine are unusable. */
  applyTensors(): Promise<void>;
}

/** Values handed over at once: the memory that a resume needs beside the state itself. */
const pieceValues = 1 << 20;

/**
 * Compares `opened` with what is to continue it.
 * @throws CheckpointError for whatever does not fit.
 */
export async function planRestoration(
  opened: OpenedCheckpoint,
  model: TrainableModel,
  engine: TrainEngine,
  terms: ResumeTerms,
): Promise<Restoration> {
  const { content, info } = opened;
  const judgement = judgeResume(info, content.fingerprint, terms.fingerprint, terms.acceptDifferences);
  const { sources, report } = await located(info.path, () =>
    planLoad(model, content.model, { allowMissing: [...terms.leavesOut] }),
  );
  const moments = await planOptimizer(opened, model, engine, terms.acceptDifferences);
  return {
    notes: [
      ...judgement.notes,
      ...(report.renamed.length > 0 ? [`${report.renamed.length} names had prefixes of wrappers`] : []),
      ...moments.notes,
      ...environmentNotes(content.environment, terms.environment),
    ],
    applyModules: () =>
      model.loadExtraState((content.modules ?? {}) as Parameters<TrainableModel["loadExtraState"]>[0]),
    applyTensors: async () => {
      await loadBuffers(content.model, model, sources);
      await engine.writeOptimizer(new Map());
      let piece = new Float32Array(pieceValues);
      for (const [name, parameter] of model.namedParameters()) {
        const source = sources.get(parameter);
        if (source === undefined) {
          if (parameter.hasData)
            await engine.writeParameters(new Map([[name, parameter.takeData()]]), { move: true });
          continue;
        }
        piece = await stream(content.model, source, piece, (begin, values, length) =>
          engine.writePart({ parameter: name, slot: null, begin }, values, length),
        );
        // The engine's from now on.
        if (parameter.hasData) parameter.takeData();
      }
      for (const { stored, parameter, slot } of moments.places)
        piece = await stream(content.optimizer, stored, piece, (begin, values, length) =>
          engine.writePart({ parameter, slot, begin }, values, length),
        );
    },
  };
}

interface Moments {
  readonly places: readonly { readonly stored: string; readonly parameter: string; readonly slot: string }[];
  readonly notes: readonly string[];
}

async function planOptimizer(
  { content, info }: OpenedCheckpoint,
  model: TrainableModel,
  engine: TrainEngine,
  accept: readonly string[],
): Promise<Moments> {
  const { slots } = await engine.describe();
  const expected = new Map<string, { parameter: string; slot: string; shape: readonly number[] }>(
    [...model.namedParameters()]
      .filter(([, parameter]) => parameter.trainable)
      .flatMap(([parameter, { shape }]) =>
        (slots.get(parameter) ?? []).map(
          (slot) => [`${parameter}.${slot}`, { parameter, slot, shape }] as const,
        ),
      ),
  );
  const { entries } = content.optimizer;
  const mapping = canonicalNames(entries.keys(), new Set(expected.keys()));
  const unusable: string[] = [];
  const places: Moments["places"][number][] = [];
  for (const [stored, name] of mapping) {
    const place = expected.get(name);
    const { dtype, shape } = entries.get(stored)!;
    if (!place) unusable.push(stored);
    else if (dtype !== "float32" || !sameShape(shape, place.shape))
      unusable.push(
        `${stored} (is ${dtype}${formatShape(shape)}, must be float32${formatShape(place.shape)})`,
      );
    else places.push({ stored, ...place });
  }
  const missing = [...expected.keys()].filter(
    (name) => !places.some((p) => `${p.parameter}.${p.slot}` === name),
  );
  const updates = content.trainer.counters.optimizerUpdates ?? content.trainer.step;
  const isLost = places.length === 0 && expected.size > 0 && updates > 0;
  if ((unusable.length > 0 || isLost) && !accept.includes("optimizer.state")) {
    throw new CheckpointError(
      `${info.path}: its optimiser state does not fit this run: ` +
        (unusable.length > 0 ? `no place for ${shortList(unusable)}` : "there is none") +
        ". A resume would go on with empty moments; set optimizer.name and the model back, or, if that is meant, " +
        "name the difference with --accept-difference optimizer.state",
      { code: "checkpoint.optimizer_differs", details: { path: info.path, unusable, missing } },
    );
  }
  return {
    places,
    notes: [
      ...(unusable.length > 0
        ? [`optimiser state without a place here was left out: ${shortList(unusable)}`]
        : []),
      ...(missing.length > 0
        ? [`the checkpoint has no optimiser state for these, which starts at zero: ${shortList(missing)}`]
        : []),
    ],
  };
}

async function loadBuffers(
  stored: StoredTensors,
  model: TrainableModel,
  sources: ReadonlyMap<StateEntry["owner"], string>,
): Promise<void> {
  const read: [TensorData, TensorData][] = [];
  for (const owner of new Set(model.stateEntries().map((entry) => entry.owner)))
    if ("value" in owner) read.push([owner.value, await stored.read(sources.get(owner)!)]);
  for (const [target, value] of read) target.data.set(value.data);
}

/** Hands one stored tensor over in pieces. Returns the memory of the pieces, which changes hands on the way. */
async function stream(
  stored: StoredTensors,
  name: string,
  memory: Float32Array<ArrayBuffer>,
  hand: (begin: number, values: Float32Array, length: number) => Promise<Float32Array>,
): Promise<Float32Array<ArrayBuffer>> {
  const { dtype, shape } = stored.entries.get(name)!;
  // Only checkpoints of other programs have other dtypes: those are converted whole.
  const whole = dtype === "float32" ? undefined : (await stored.read(name)).data;
  const size = sizeOf(shape);
  let piece = memory;
  for (let begin = 0; begin < size; begin += pieceValues) {
    const length = Math.min(pieceValues, size - begin);
    const part = piece.subarray(0, length);
    if (whole) part.set(whole.subarray(begin, begin + length));
    else await stored.readPart(name, begin, part);
    piece = (await hand(begin, piece, length)) as Float32Array<ArrayBuffer>;
  }
  return piece;
}

/** Adds the checkpoint's path to what does not fit. */
async function located<T>(path: string, plan: () => Promise<T>): Promise<T> {
  try {
    return await plan();
  } catch (error) {
    if (!(error instanceof CheckpointError)) throw error;
    throw new CheckpointError(`${path}: ${error.message}`, {
      code: error.code,
      details: { path, ...error.details },
      cause: error,
    });
  }
}

function shortList(names: readonly string[]): string {
  return names.slice(0, 10).join(", ") + (names.length > 10 ? ` and ${names.length - 10} more` : "");
}
