// Contracts between the logger and what it feeds: sinks (files, displays) and hooks (a user's callbacks).
import type { EventMap, EventName } from "./events/catalogue.js";

/** Keys the logger adds to every payload. `elapsed_s` keeps the emitter's value where it gives one. */
export type AddedKeys = {
  /** Seconds since the logger was made, unless the event defines its own duration. */
  readonly elapsed_s: number;
  /** Wall-clock time, ISO 8601 in UTC with milliseconds. */
  readonly time: string;
  readonly run_id: string;
};

/** A payload as sinks and hooks receive it: their own copy, frozen to the last level. */
export type EventPayload = Readonly<Record<string, unknown>> & AddedKeys;

export interface EventContext {
  readonly time: Date;
  /** Seconds since the logger was made. */
  readonly elapsedS: number;
  readonly runId: string;
}

/**
 * A receiver of events. Exceptions and rejections are contained by the logger. While a promise returned by
 * `write` is pending, further events wait in a bounded queue, so order is kept and training never waits.
 */
export interface Sink {
  readonly name: string;
  /** Of the `train_step` events, take each n-th; the first and the last are always given. Default 1. */
  readonly everySteps?: number;
  accept?(event: string, payload: EventPayload): boolean;
  write(event: string, payload: EventPayload, context: EventContext): void | PromiseLike<void>;
  flush?(): void | PromiseLike<void>;
  close?(): void | PromiseLike<void>;
}

/**
 * `[event, payload]`, narrowing the payload once the event's name is known. A hook that declares types of its
 * own may take `(event: string, payload: Readonly<Record<string, unknown>>)`; declare both parameters or none.
 */
export type EventArguments = {
  [E in EventName]: [event: E, payload: Readonly<EventMap[E]> & AddedKeys];
}[EventName];

/** Runs on the thread that emits; give a promise back for work that takes long, it is never waited for. */
export type HookFunction = (...args: EventArguments) => unknown;

export interface HookObject {
  onEvent(...args: EventArguments): unknown;
  flush?(): void | PromiseLike<void>;
  close?(): void | PromiseLike<void>;
}

export type Hook = HookFunction | HookObject;

export interface HookOptions {
  /** Name used in warnings; default: the function's or class's name. */
  name?: string;
  /** Cadence of `train_step`; default 1: hooks see every step whatever the logs show. */
  everySteps?: number;
}

function hookName(hook: Hook): string {
  const own = typeof hook === "function" ? hook.name : hook.constructor?.name;
  return own && own !== "Object" ? `hook ${own}` : "hook";
}

/** Wraps a hook as a sink. */
export function hookSink(hook: Hook, options: HookOptions = {}): Sink {
  const object = typeof hook === "function" ? { onEvent: hook } : hook;
  return {
    name: options.name ?? hookName(hook),
    everySteps: options.everySteps ?? 1,
    write(event, payload) {
      // The logger delivers catalogue payloads under catalogue names; custom events reach hooks untyped.
      const result = object.onEvent(...([event, payload] as unknown as EventArguments));
      return isPromiseLike(result) ? result : undefined;
    },
    flush: () => object.flush?.(),
    close: () => object.close?.(),
  };
}

export function isPromiseLike(value: unknown): value is PromiseLike<void> {
  return (
    typeof value === "object" && value !== null && typeof (value as { then?: unknown }).then === "function"
  );
}
