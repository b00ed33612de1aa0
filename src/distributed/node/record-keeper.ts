// Keeps the node's document on disk up to date: one write at a time, the newest state, again and again until it works.

import { type BackoffSettings, backoffMs } from "../transports/backoff.js";
import type { Clock } from "./clock.js";
import type { NodeRecord, Outbox } from "./outbox.js";

export interface RecordKeeperOptions {
  readonly outbox: Outbox;
  readonly clock: Clock;
  readonly backoff: BackoffSettings;
  readonly random: () => number;
  readonly signal: AbortSignal;
  /** The first failure of a row. */
  onFailure(error: unknown): void;
}

export class RecordKeeper {
  readonly #options: RecordKeeperOptions;
  #wanted: NodeRecord | undefined;
  #writing: Promise<void> = Promise.resolve();
  #isWriting = false;

  constructor(options: RecordKeeperOptions) {
    this.#options = options;
  }

  update(record: NodeRecord): void {
    this.#wanted = record;
    if (this.#isWriting) return;
    this.#isWriting = true;
    this.#writing = this.#write();
  }

  /** Resolves once everything given so far is on disk, or the node has ended. */
  saved(): Promise<void> {
    return this.#writing;
  }

  async #write(): Promise<void> {
    const { outbox, clock, backoff, random, signal, onFailure } = this.#options;
    let failures = 0;
    while (this.#wanted !== undefined) {
      const record = this.#wanted;
      this.#wanted = undefined;
      try {
        await outbox.save(record);
        failures = 0;
      } catch (error) {
        this.#wanted ??= record;
        failures += 1;
        if (failures === 1) onFailure(error);
        if (signal.aborted) break;
        await clock.sleep(backoffMs(failures, backoff, random), signal);
      }
    }
    this.#isWriting = false;
  }
}
