// Time that passes only when nothing else happens. Everything that waits has an entry here; the earliest one goes next,
// and what it sets off runs to its end before the one after it. So the order of events depends on numbers alone.

interface Entry {
  readonly atMs: number;
  /** Entries of one time go in the order in which they were made. */
  readonly order: number;
  run: (() => void) | undefined;
}

export class VirtualTime {
  #nowMs = 0;
  #made = 0;
  /** A heap: no entry is before its parent at (i - 1) >> 1. */
  readonly #heap: Entry[] = [];
  #turns = 0;

  get nowMs(): number {
    return this.#nowMs;
  }

  /** Events so far. */
  get turns(): number {
    return this.#turns;
  }

  /** Calls `run` after `ms`; returns what takes that back. */
  after(ms: number, run: () => void): () => void {
    const entry: Entry = { atMs: this.#nowMs + Math.max(0, ms), order: this.#made++, run };
    this.#push(entry);
    return () => {
      entry.run = undefined;
    };
  }

  /** Lets time pass until `isOver`, or nothing waits any more, or the clock shows `limitMs`. */
  async runUntil(isOver: () => boolean, limitMs: number): Promise<"over" | "idle" | "late"> {
    await settle();
    while (!isOver()) {
      const entry = this.#pop();
      if (entry === undefined) return "idle";
      if (entry.run === undefined) continue;
      if (entry.atMs > limitMs) {
        this.#push(entry);
        return "late";
      }
      this.#nowMs = Math.max(this.#nowMs, entry.atMs);
      this.#turns++;
      entry.run();
      await settle();
    }
    return "over";
  }

  #push(entry: Entry): void {
    const heap = this.#heap;
    let at = heap.push(entry) - 1;
    while (at > 0) {
      const parent = (at - 1) >> 1;
      if (!isBefore(heap[at]!, heap[parent]!)) return;
      [heap[at], heap[parent]] = [heap[parent]!, heap[at]!];
      at = parent;
    }
  }

  #pop(): Entry | undefined {
    const heap = this.#heap;
    const first = heap[0];
    const last = heap.pop();
    if (first === undefined || last === undefined || first === last) return first;
    heap[0] = last;
    for (let at = 0; ; ) {
      let least = at;
      for (const child of [2 * at + 1, 2 * at + 2]) {
        if (child < heap.length && isBefore(heap[child]!, heap[least]!)) least = child;
      }
      if (least === at) return first;
      [heap[at], heap[least]] = [heap[least]!, heap[at]!];
      at = least;
    }
  }
}

function isBefore(a: Entry, b: Entry): boolean {
  return a.atMs < b.atMs || (a.atMs === b.atMs && a.order < b.order);
}

/**
 * Until every promise that can go on has done so: those chains end before the event loop turns. Browsers have no
 * `setImmediate`, and their timers wait for milliseconds; a message does not.
 */
function settle(): Promise<void> {
  if (typeof setImmediate === "function") return new Promise((resolve) => setImmediate(resolve));
  return new Promise((resolve) => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => {
      port1.close();
      resolve();
    };
    port2.postMessage(undefined);
  });
}
