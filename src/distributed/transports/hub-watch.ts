// Time-outs that count from the last progress, not from the start: a slow line takes its time, a dead one ends soon.

import { TransportError } from "./errors.js";

/** Runs out when `touch` was not called for `stallMs` while it is armed. */
export class StallWatch {
  readonly #stallMs: number;
  readonly #doing: string;
  readonly #controller = new AbortController();
  /** One for many waits: to set a timer for each piece of a body costs more than to copy the piece. */
  #timer: ReturnType<typeof setTimeout> | undefined;
  /** Undefined while nobody waits. */
  #deadlineMs: number | undefined;

  constructor(stallMs: number, doing: string) {
    this.#stallMs = stallMs;
    this.#doing = doing;
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** Starts to wait anew. */
  touch(): void {
    this.#deadlineMs = performance.now() + this.#stallMs;
    if (this.#timer === undefined) this.#wakeAfter(this.#stallMs);
  }

  /** Nobody waits until the next touch. */
  pause(): void {
    this.#deadlineMs = undefined;
  }

  /** Nobody waits any more. */
  rest(): void {
    this.pause();
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }

  /** Ends the request whatever it is at. */
  abort(reason: unknown): void {
    this.rest();
    this.#controller.abort(reason);
  }

  #wakeAfter(ms: number): void {
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      if (this.#deadlineMs === undefined) return;
      const leftMs = this.#deadlineMs - performance.now();
      if (leftMs > 0) this.#wakeAfter(leftMs);
      else this.#controller.abort(this.#error());
    }, ms);
    // A body that nobody reads to its end does not keep the process.
    const timer: { unref?: () => void } | number = this.#timer;
    if (typeof timer === "object") timer.unref?.();
  }

  #error(): TransportError {
    const seconds = Math.round(this.#stallMs / 100) / 10;
    return new TransportError("unavailable", `${this.#doing}: nothing moved for ${seconds} s; given up`);
  }
}

/** The same body; the watch runs only while someone waits for bytes. */
export function watchBody(
  body: ReadableStream<Uint8Array>,
  watch: StallWatch,
  toError: (error: unknown) => unknown,
): ReadableStream<Uint8Array> {
  const reader = body.getReader();
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        watch.touch();
        try {
          const { done, value } = await reader.read();
          watch.pause();
          if (!done) return controller.enqueue(value);
          watch.rest();
          controller.close();
        } catch (error) {
          watch.rest();
          controller.error(toError(error));
        }
      },
      async cancel(reason) {
        watch.rest();
        await reader.cancel(reason);
      },
    },
    { highWaterMark: 0 },
  );
}
