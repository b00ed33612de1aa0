// Shared pieces of the observe tests: a clock under control, a recording sink, and a typical step.
import type { EventMap, EventPayload, Sink } from "../../src/observe/index.js";

export const runId = "run-1";

/** Local time, so that text lines come out the same in every time zone. */
export const localTime = new Date(2026, 0, 2, 3, 4, 5, 6);

export class FakeClock {
  ms = 0;
  readonly monotonicMs = (): number => this.ms;
  readonly now = (): Date => localTime;
}

export function stepPayload(
  step: number,
  changes: Partial<EventMap["train_step"]> = {},
): EventMap["train_step"] {
  return {
    step,
    loss: 2.3456789,
    lr: 0.0003,
    steps_per_sec: 4,
    samples_per_sec: 8,
    tokens_per_sec: 256,
    samples: step * 2,
    tokens: step * 64,
    micro_batches: 1,
    ...changes,
  };
}

export function startPayload(start_step: number, target_step: number): EventMap["train_start"] {
  return {
    start_step,
    target_step,
    device: "cpu",
    precision: "fp32",
    accumulation_steps: 1,
    parameters: 1_340_000,
    shape_alignment: null,
    shape_warning_count: 0,
    ooo_backprop: null,
  };
}

export interface Recording extends Sink {
  readonly seen: [event: string, payload: EventPayload][];
  /** `event` or `event:step` of all events, in order. */
  readonly names: () => string[];
  isClosed: boolean;
}

export function recordingSink(name: string, everySteps?: number): Recording {
  const seen: [string, EventPayload][] = [];
  return {
    name,
    ...(everySteps === undefined ? {} : { everySteps }),
    seen,
    isClosed: false,
    names: () => seen.map(([event, { step }]) => (event === "train_step" ? `${event}:${step}` : event)),
    write(event, payload) {
      seen.push([event, payload]);
    },
    close() {
      this.isClosed = true;
    },
  };
}
