// The numbers of an event as named scalars over steps, for displays that draw curves: TensorBoard, Weights & Biases.
// One rule for all events: whoever adds a number to an event gets its curve.

import type { EventPayload } from "./sink.js";

/** First part of a scalar's name, where it is not the event's. */
const groups: Readonly<Record<string, string>> = { train_step: "train", evaluation: "validation" };

/** Not worth a curve: the step itself, and what every event carries. */
const hidden: ReadonlySet<string> = new Set(["step", "time", "run_id"]);
/** Of these the logger's own seconds would be meaningless. */
const ownSeconds: ReadonlySet<string> = new Set(["evaluation", "train_end"]);

/** Events about a step that are no measurement. */
const noCurves: ReadonlySet<string> = new Set(["resume", "data_epoch", "sample"]);

/** Texts that name what an event is about, such as a set of evaluation data. */
const qualifiers = ["set", "name"] as const;

/** Step of the event's numbers; undefined for events that belong to no step. */
export function stepOf(event: string, payload: EventPayload): number | undefined {
  const step = event === "train_end" ? payload.steps : payload.step;
  return typeof step === "number" && Number.isInteger(step) ? step : undefined;
}

/**
 * `train/loss`, `validation/loss`, `layer_norms/gradient/<parameter>`, … Empty for events without a step. Numbers in
 * a mapping are named by its keys.
 */
export function scalarsOf(event: string, payload: EventPayload): Map<string, number> {
  const rows = new Map<string, number>();
  if (stepOf(event, payload) === undefined || noCurves.has(event)) return rows;
  const qualifier = qualifiers.map((key) => payload[key]).find((value) => typeof value === "string");
  const group = [groups[event] ?? event, ...(qualifier === undefined ? [] : [qualifier])].join("/");
  for (const [key, value] of Object.entries(payload)) {
    if (hidden.has(key) || (key === "elapsed_s" && !ownSeconds.has(event))) continue;
    if (typeof value === "number") rows.set(`${group}/${key}`, value);
    else if (isMapping(value))
      for (const [inner, number] of Object.entries(value))
        if (typeof number === "number") rows.set(`${group}/${key}/${inner}`, number);
  }
  return rows;
}

function isMapping(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
