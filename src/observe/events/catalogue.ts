// The one table of all events. A new group is a file beside this one, one `extends` and one spread here.
import { type CheckpointEvents, checkpointEventDocs } from "./checkpoint.js";
import { type DataEvents, dataEventDocs } from "./data.js";
import { type DistributedEvents, distributedEventDocs } from "./distributed.js";
import type { EventDoc, KeyDoc } from "./doc.js";
import { type EvaluationEvents, evaluationEventDocs } from "./evaluation.js";
import { type NoteEvents, noteEventDocs } from "./note.js";
import { type ShapeEvents, shapeEventDocs } from "./shapes.js";
import { type TrainEvents, trainEventDocs } from "./train.js";

/** Payload of each event as its emitter gives it. */
export interface EventMap
  extends TrainEvents,
    CheckpointEvents,
    EvaluationEvents,
    DataEvents,
    DistributedEvents,
    ShapeEvents,
    NoteEvents {}

export type EventName = keyof EventMap;

/** Every event with a line of documentation for it and for each of its keys. */
export const eventCatalogue: { readonly [E in EventName]: EventDoc } = {
  ...trainEventDocs,
  ...checkpointEventDocs,
  ...evaluationEventDocs,
  ...dataEventDocs,
  ...distributedEventDocs,
  ...shapeEventDocs,
  ...noteEventDocs,
};

/** Docs of an event by name; `undefined` for events that are not in the table. */
export function findEventDoc(event: string): EventDoc | undefined {
  return Object.hasOwn(eventCatalogue, event) ? eventCatalogue[event as EventName] : undefined;
}

/** Docs of one payload key; `undefined` for keys that are not in the table. */
export function findKeyDoc(event: string, key: string): KeyDoc | undefined {
  const keys = findEventDoc(event)?.keys;
  return keys !== undefined && Object.hasOwn(keys, key) ? keys[key] : undefined;
}
