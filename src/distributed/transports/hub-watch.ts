// Time-outs that count from the last progress, not from the start: a slow line takes its time, a dead one ends soon.

import { TransportError } from "./errors.js";

/** Runs out when `touch` was not called for `stallMs` while it is armed. */
export class StallWatch {
  readonly #stallMs: number;
  readonly #doing: string;
  readonly #controller = new AbortController();
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(stallMs: number, doing: string) {
    this.#stallMs = stallMs;
    this.#doing = doing;
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** Starts to wait anew. */
  touch(): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#controller.abort(this.#error()), this.#stallMs);
  }

  rest(): void {
    clearTimeout(this.#timer);
  }

  /** Ends the request whatever it is at. */
  abort(reason: unknown): void {
    this.rest();
    this.#controller.abort(reason);
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
          if (done) controller.close();
          else controller.enqueue(value);
        } catch (error) {
          controller.error(toError(error));
        } finally {
          watch.rest();
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
