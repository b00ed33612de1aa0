// The line form of JSONL metrics: `event`, `time` and `run_id` first, then the payload. Always valid JSON:
// NaN and infinities become null, and a sibling key `<key>_text` says `nan`, `inf` or `-inf`.
import { nonFiniteText } from "./number-text.js";
import type { EventPayload } from "./sink.js";

function toJson(value: unknown): unknown {
  if (typeof value === "number") return Number.isFinite(value) ? value : null;
  if (Array.isArray(value)) return value.map(toJson);
  return typeof value === "object" && value !== null ? objectToJson(value) : value;
}

function objectToJson(source: object): Record<string, unknown> {
  const rows: [string, unknown][] = [];
  for (const [key, value] of Object.entries(source)) {
    rows.push([key, toJson(value)]);
    const special = typeof value === "number" ? nonFiniteText(value) : undefined;
    if (special !== undefined && !Object.hasOwn(source, `${key}_text`)) rows.push([`${key}_text`, special]);
  }
  return Object.fromEntries(rows);
}

/** One line of JSON, without the line end. A payload key named `event` gives way to the event's name. */
export function formatJsonLine(event: string, payload: EventPayload): string {
  const { time, run_id, ...rest } = payload;
  const line: Record<string, unknown> = { event, time, run_id, ...objectToJson(rest) };
  line.event = event;
  return JSON.stringify(line);
}
