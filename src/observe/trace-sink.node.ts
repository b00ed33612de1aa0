// Where the time of a run goes, as a Chrome trace (JSON): open it in Perfetto or chrome://tracing. It is made from the
// durations that events carry, so profiling costs nothing but the file.
// The list's closing bracket is written at the end; viewers also read a file that was cut off before.

import { LineFile } from "./line-file.node.js";
import type { EventContext, EventPayload, Sink } from "./sink.js";

export interface TraceSinkOptions {
  /** Steps after which nothing more is written. Default 10,000: about 10 MB. */
  maxSteps?: number;
}

interface Span {
  readonly name: string;
  readonly track: keyof typeof tracks;
  readonly startS: number;
  readonly durationS: number;
  readonly args?: Readonly<Record<string, unknown>>;
}

/** Numbers of threads in the trace, in the order in which viewers show them. */
const tracks = { steps: 1, phases: 2, pauses: 3, saving: 4 } as const;
const trackNames: Readonly<Record<keyof typeof tracks, string>> = {
  steps: "Steps",
  phases: "Within a step",
  pauses: "Between steps",
  saving: "Checkpoints, written beside training",
};

/** Parts of a step in the order in which they run, with the key of their seconds. */
const phases = [
  ["waiting for data", "data_s"],
  ["compile", "compile_s"],
  ["forward and backward", "graph_s"],
  ["optimizer", "optimizer_s"],
  ["exchange", "sync_s"],
] as const;

const numberAt = (payload: EventPayload, key: string): number | undefined =>
  typeof payload[key] === "number" ? payload[key] : undefined;

/** Starts `path` anew. */
export function traceSink(path: string, options: TraceSinkOptions = {}): Sink {
  const file = new LineFile(path, { append: false });
  const { maxSteps = 10_000 } = options;
  let steps = 0;
  let hasStarted = false;

  const put = (entry: Readonly<Record<string, unknown>>): void => {
    if (!hasStarted) {
      hasStarted = true;
      file.append("[");
      for (const [name, tid] of Object.entries(tracks) as [keyof typeof tracks, number][])
        put({ name: "thread_name", ph: "M", pid: 1, tid, args: { name: trackNames[name] } });
    }
    file.append(`${JSON.stringify(entry)},`);
  };
  const putSpan = ({ name, track, startS, durationS, args }: Span): void =>
    put({
      name,
      cat: track,
      ph: "X",
      pid: 1,
      tid: tracks[track],
      ts: micros(Math.max(0, startS)),
      dur: micros(durationS),
      ...(args && { args }),
    });

  const writeStep = (payload: EventPayload, nowS: number): void => {
    steps += 1;
    const durationS = numberAt(payload, "step_s") ?? 0;
    const { step, loss, lr, grad_norm } = payload;
    const startS = nowS - durationS;
    const args = { step, loss, lr, grad_norm };
    putSpan({ name: `step ${step}`, track: "steps", startS, durationS, args });
    let at = startS;
    for (const [name, key] of phases) {
      const seconds = numberAt(payload, key) ?? 0;
      if (seconds > 0) putSpan({ name, track: "phases", startS: at, durationS: seconds });
      at += seconds;
    }
    const rss = numberAt(payload, "rss_bytes");
    if (rss !== undefined)
      put({ name: "memory", ph: "C", pid: 1, ts: micros(nowS), args: { megabytes: rss / 2 ** 20 } });
  };

  return {
    name: `trace ${path}`,
    write(event, payload, context) {
      if (steps >= maxSteps) return;
      if (event === "train_step") writeStep(payload, context.elapsedS);
      else for (const span of spansOf(event, payload, context)) putSpan(span);
      if (event === "train_end" || event === "warning")
        put({
          name: event === "warning" ? String(payload.code) : "end",
          ph: "i",
          s: "g",
          pid: 1,
          tid: tracks.steps,
          ts: micros(context.elapsedS),
        });
    },
    flush: () => file.flush(),
    close() {
      // A last element without a comma, so that the whole is valid JSON.
      if (hasStarted)
        file.append(
          `${JSON.stringify({ name: "process_name", ph: "M", pid: 1, args: { name: "speedtronic" } })}]`,
        );
      file.close();
    },
  };
}

function spansOf(event: string, payload: EventPayload, { elapsedS }: EventContext): Span[] {
  const ending = (name: string, track: Span["track"], durationS: number | undefined): Span[] =>
    durationS === undefined
      ? []
      : [{ name, track, startS: elapsedS - durationS, durationS, args: { step: payload.step } }];
  switch (event) {
    case "evaluation":
      return ending("evaluation", "pauses", numberAt(payload, "elapsed_s"));
    case "sample":
      return ending("sample", "pauses", numberAt(payload, "sample_s"));
    case "checkpoint":
      return ending("checkpoint", "saving", numberAt(payload, "save_s"));
    default:
      return [];
  }
}

const micros = (seconds: number): number => Math.round(seconds * 1e6);
