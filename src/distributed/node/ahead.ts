// Work in order with the next piece of it begun already: while one delta is looked through, the next one arrives.

export class Ahead<Item, Result> {
  readonly #work: (item: Item, signal: AbortSignal) => Promise<Result>;
  readonly #ending = new AbortController();
  readonly #signal: AbortSignal;
  #next: { readonly item: Item; readonly result: Promise<Result> } | undefined;

  constructor(work: (item: Item, signal: AbortSignal) => Promise<Result>, signal: AbortSignal | undefined) {
    this.#work = work;
    this.#signal =
      signal === undefined ? this.#ending.signal : AbortSignal.any([signal, this.#ending.signal]);
  }

  /** The result for `item`; work on `next` begins meanwhile. */
  async take(item: Item, next: Item | undefined): Promise<Result> {
    const result = this.#next?.item === item ? this.#next.result : this.#work(item, this.#signal);
    this.#next = next === undefined ? undefined : { item: next, result: this.#work(next, this.#signal) };
    // Heard of when its turn comes.
    this.#next?.result.catch(() => undefined);
    return result;
  }

  /** Gives up what was begun, and waits until it has ended. */
  async end(): Promise<void> {
    this.#ending.abort();
    await this.#next?.result.catch(() => undefined);
    this.#next = undefined;
  }
}
