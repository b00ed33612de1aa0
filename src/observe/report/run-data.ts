// A run as its metrics file tells it: curves, samples, facts, warnings. Folds lines one by one; reads no files.

import { scalarsOf, stepOf } from "../scalars.js";
import type { EventPayload } from "../sink.js";

type Plain = Readonly<Record<string, unknown>>;

export interface Sample {
  readonly step: number;
  readonly prompt: string;
  readonly text: string;
}

export interface Warning {
  readonly code: string;
  readonly message: string;
  count: number;
}

export interface Point {
  readonly step: number;
  /** NaN where the number was not finite. */
  readonly value: number;
}

/** Samples kept per run: the newest. */
const maximumSamples = 12;
const maximumWarnings = 50;

export class RunData {
  /** What the page calls it. */
  label: string;
  readonly path: string;
  runId = "";
  info: Plain = {};
  start: Plain = {};
  end: Plain | undefined;
  samples: Sample[] = [];
  layerNorms: Plain | undefined;
  /** Seconds by what they went to, over all fits in the file. */
  readonly times = new Map<string, number>();
  readonly warnings = new Map<string, Warning>();
  /** Lines that are no events: broken off, or something else. */
  unreadable = 0;
  events = 0;
  /** In a start that found nothing to train. */
  #isIdle = false;
  readonly #curves = new Map<string, Map<number, number>>();

  constructor(label: string, path: string) {
    this.label = label;
    this.path = path;
  }

  addLine(line: string): void {
    if (line.trim() === "") return;
    let parsed: unknown;
    try {
      parsed = JSON.parse(line);
    } catch {
      parsed = undefined;
    }
    const { event, ...payload } = (typeof parsed === "object" && parsed !== null ? parsed : {}) as Plain;
    if (typeof event !== "string") {
      this.unreadable += 1;
      return;
    }
    this.events += 1;
    this.#add(event, withSpecials(payload) as EventPayload);
  }

  /** In the order of steps; empty for a curve that the run does not have. */
  curve(name: string): Point[] {
    return [...(this.#curves.get(name) ?? [])]
      .map(([step, value]) => ({ step, value }))
      .sort((a, b) => a.step - b.step);
  }

  /** Names of all curves that begin with `prefix`. */
  curveNames(prefix: string): string[] {
    return [...this.#curves.keys()].filter((name) => name.startsWith(prefix));
  }

  last(name: string): number | undefined {
    return this.curve(name).at(-1)?.value;
  }

  #add(event: string, payload: EventPayload): void {
    if (typeof payload.run_id === "string") this.runId = payload.run_id;
    if (event === "run_info") this.info = payload;
    if (event === "train_start") this.#restart(payload);
    if (event === "train_end") this.#finish(payload);
    if (event === "sample") this.#addSample(payload);
    if (event === "warning") this.#addWarning(payload);
    // One for each parameter, at each of its steps: the newest is what is shown.
    if (event === "layer_norms") {
      this.layerNorms = payload;
      return;
    }
    const step = stepOf(event, payload);
    if (step === undefined) return;
    for (const [name, value] of scalarsOf(event, payload)) {
      const curve = this.#curves.get(name) ?? new Map<number, number>();
      this.#curves.set(name, curve);
      curve.set(step, value);
    }
  }

  /** What lies behind the step at which a run (re)starts was done again, or belongs to another run. */
  #restart(payload: EventPayload): void {
    const isAtTarget = typeof payload.start_step === "number" && payload.start_step === payload.target_step;
    this.#isIdle = isAtTarget && payload.start_step !== 0;
    if (this.#isIdle) return;
    this.start = payload;
    this.end = undefined;
    const from = typeof payload.start_step === "number" ? payload.start_step : 0;
    for (const curve of this.#curves.values())
      for (const step of curve.keys()) if (step > from || from === 0) curve.delete(step);
    this.samples = this.samples.filter(({ step }) => step <= from && from > 0);
    if (from === 0) this.times.clear();
  }

  #finish(payload: EventPayload): void {
    if (this.#isIdle) return;
    this.end = payload;
    for (const [part, seconds] of Object.entries((payload.times ?? {}) as Plain))
      if (typeof seconds === "number") this.times.set(part, (this.times.get(part) ?? 0) + seconds);
  }

  #addSample({ step, prompt, text }: EventPayload): void {
    this.samples.push({ step: Number(step), prompt: String(prompt ?? ""), text: String(text ?? "") });
    if (this.samples.length > maximumSamples) this.samples.shift();
  }

  #addWarning({ code, message }: EventPayload): void {
    const key = String(code);
    const known = this.warnings.get(key);
    if (known) known.count += 1;
    else if (this.warnings.size < maximumWarnings)
      this.warnings.set(key, { code: key, message: String(message), count: 1 });
  }
}

const specials: Readonly<Record<string, number>> = {
  nan: Number.NaN,
  inf: Number.POSITIVE_INFINITY,
  "-inf": Number.NEGATIVE_INFINITY,
};

/** The numbers that JSON has no form for, from the words beside them. */
function withSpecials(payload: Plain): Plain {
  const texts = Object.keys(payload).filter((key) => key.endsWith("_text"));
  if (texts.length === 0) return payload;
  const found = texts.flatMap((key): [string, number][] => {
    const special = specials[String(payload[key])];
    const name = key.slice(0, -"_text".length);
    return special === undefined || payload[name] !== null ? [] : [[name, special]];
  });
  return { ...payload, ...Object.fromEntries(found) };
}
