// The line form of text logs, as Python Speedtronic writes it:
// `2026-01-02 03:04:05,006 | INFO | train_step step=1 loss=2.5 …`, local time, floats with 6 significant digits.
// `time` and `run_id` are left out of the line: its head has the one, the file's events the other.
import { findEventDoc, findKeyDoc } from "./events/catalogue.js";
import { isLevelEnabled, type LogLevel } from "./level.js";
import { escapeControls, formatGeneral, formatPythonValue } from "./number-text.js";
import type { EventContext, EventPayload } from "./sink.js";

const hiddenKeys: ReadonlySet<string> = new Set(["time", "run_id"]);

function formatTime(time: Date): string {
  const pad = (value: number, width = 2): string => String(value).padStart(width, "0");
  const day = `${time.getFullYear()}-${pad(time.getMonth() + 1)}-${pad(time.getDate())}`;
  const clock = `${pad(time.getHours())}:${pad(time.getMinutes())}:${pad(time.getSeconds())}`;
  return `${day} ${clock},${pad(time.getMilliseconds(), 3)}`;
}

function formatValue(event: string, key: string, value: unknown): string {
  if (typeof value === "string") return escapeControls(value);
  if (typeof value !== "number") return formatPythonValue(value);
  const isWhole = Number.isSafeInteger(value) && findKeyDoc(event, key)?.kind !== "float";
  return isWhole ? String(value) : formatGeneral(value);
}

/** Level of an event's line. */
function levelOf(event: string, payload: Readonly<Record<string, unknown>>): LogLevel {
  if (event === "log") return payload.level as LogLevel;
  return findEventDoc(event)?.level ?? "INFO";
}

/** Whether a sink for people shows an event at this threshold: only messages have a level, metrics always pass. */
export function passesLevel(event: string, payload: EventPayload, threshold: LogLevel): boolean {
  if (event !== "log" && event !== "warning") return true;
  return isLevelEnabled(levelOf(event, payload), threshold);
}

/** One line, without the line end. Messages print as such, all other events as `event key=value …`. */
export function formatTextLine(
  event: string,
  payload: EventPayload,
  context: Pick<EventContext, "time">,
): string {
  const head = `${formatTime(context.time)} | ${levelOf(event, payload)} | `;
  if (event === "log" || event === "warning") return head + escapeControls(String(payload.message));
  const pairs = Object.entries(payload)
    .filter(([key]) => !hiddenKeys.has(key))
    .map(([key, value]) => ` ${key}=${formatValue(event, key, value)}`);
  return head + event + pairs.join("");
}
