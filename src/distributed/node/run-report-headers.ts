// What deltas in a repository say about themselves, read from their headers alone. A delta's content never changes
// under its id, so that each is read once however often a report is made.

import { openSafetensors, SafetensorsError } from "../../formats/safetensors/index.js";
import type { ListedDelta } from "../protocol/master-contract.js";
import type { CallOptions, Transport } from "../transports/contract.js";
import { TransportError } from "../transports/errors.js";
import { type DeltaHeader, parseDeltaHeader } from "../wire/delta-header.js";
import { WireError } from "../wire/errors.js";
import { HEADER_KEYS } from "./aggregator-inspect.js";

export interface DeltaFacts {
  readonly baseOuterStep: number;
  /** Undefined where a peer does not say. */
  readonly tokens: number | undefined;
  readonly steps: number | undefined;
}

/** Requests at a time. */
const LANES = 6;

export class HeaderReader {
  readonly #transport: Transport;
  readonly #known = new Map<string, DeltaFacts | "unreadable">();

  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /** By path; `unreadable` for files that are no deltas. Files that went away meanwhile are left out. */
  async read(
    revision: string,
    deltas: readonly ListedDelta[],
    { signal }: CallOptions = {},
  ): Promise<Map<string, DeltaFacts | "unreadable">> {
    const found = new Map<string, DeltaFacts | "unreadable">();
    const queue = [...deltas];
    const lane = async () => {
      for (let delta = queue.shift(); delta !== undefined; delta = queue.shift()) {
        const facts = await this.#readOne(revision, delta, signal);
        if (facts !== undefined) found.set(delta.path, facts);
      }
    };
    await Promise.all(Array.from({ length: LANES }, lane));
    return found;
  }

  async #readOne(
    revision: string,
    { path, contentId }: ListedDelta,
    signal: AbortSignal | undefined,
  ): Promise<DeltaFacts | "unreadable" | undefined> {
    const key = `${path}\n${contentId}`;
    const known = this.#known.get(key);
    if (known !== undefined) return known;
    try {
      const source = await this.#transport.open(revision, path, { signal });
      try {
        const { metadata } = await openSafetensors(source);
        this.#known.set(key, factsOf(parseDeltaHeader(metadata)));
      } finally {
        await source.close?.();
      }
    } catch (error) {
      if (error instanceof TransportError && error.problem === "not_found") return undefined;
      if (!(error instanceof SafetensorsError || error instanceof WireError)) throw error;
      this.#known.set(key, "unreadable");
    }
    return this.#known.get(key);
  }
}

function factsOf({ baseOuterStep, extra }: DeltaHeader): DeltaFacts {
  const count = (key: string) => {
    const text = extra.get(key);
    return text !== undefined && /^[0-9]{1,15}$/.test(text) ? Number(text) : undefined;
  };
  return { baseOuterStep, tokens: count(HEADER_KEYS.tokens), steps: count(HEADER_KEYS.steps) };
}
