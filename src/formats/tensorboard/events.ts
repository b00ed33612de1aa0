// What TensorBoard reads, as bytes of a record file: the head of a file, scalars, texts, histograms, and the mark of
// a restart. Knows neither files nor clocks.

import { histogramOf } from "./histogram.js";
import { frameRecord } from "./record.js";
import { encodeMessage, type SummaryValue } from "./schema.js";

/** When and at which step. */
export interface EventPlace {
  /** Seconds since 1970. */
  readonly wallTime: number;
  readonly step: number;
}

/** The first record of every file: which version of the format follows. */
export function encodeFileHead(wallTime: number): Uint8Array {
  return frameRecord(encodeMessage({ wallTime, fileVersion: "brain.Event:2" }));
}

/** SessionLog.START. */
const statusStart = 1;

/** Says that what follows begins at `step` again: readers drop what earlier files have from there on. */
export function encodeRestart(place: EventPlace): Uint8Array {
  return frameRecord(encodeMessage({ ...place, sessionLog: { status: statusStart } }));
}

/** Several scalars of one step in one record. They are stored as 32-bit floats. */
export function encodeScalars(place: EventPlace, scalars: ReadonlyMap<string, number>): Uint8Array {
  return summary(
    place,
    [...scalars].map(([tag, simpleValue]) => ({ tag, simpleValue })),
  );
}

/** DataType.DT_STRING. */
const typeString = 7;

/** Markdown text. */
export function encodeText(place: EventPlace, tag: string, text: string): Uint8Array {
  const tensor = {
    dtype: typeString,
    tensorShape: { dim: [{ size: 1 }] },
    stringVal: [new TextEncoder().encode(text)],
  };
  return summary(place, [{ tag, tensor, metadata: { pluginData: { pluginName: "text" } } }]);
}

export function encodeHistogram(place: EventPlace, tag: string, values: Iterable<number>): Uint8Array {
  return summary(place, [{ tag, histo: histogramOf(values) }]);
}

function summary(place: EventPlace, value: readonly SummaryValue[]): Uint8Array {
  return frameRecord(encodeMessage({ ...place, summary: { value } }));
}
