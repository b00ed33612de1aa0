// How an aggregator begins: with the run in the repository, or with a new one. A repository that answered once is waited
// for, also by a later process with the same files; one that never did may be the wrong one.

import { TransportError } from "../transports/errors.js";
import { bootstrapRun } from "./aggregator-bootstrap.js";
import { AggregatorError } from "./aggregator-errors.js";
import { isTemporary, patienceMs, waitingPayload } from "./aggregator-patience.js";
import { type RunHead, readRunHead } from "./aggregator-repository.js";
import { claimRun, type LiveRun, MovedError, type RunOptions, scratchName } from "./aggregator-run.js";

export interface OpenOptions extends RunOptions {
  readonly pollIntervalMs: number;
}

/**
 * Temporary trouble after the first answer, or with a repository that is known from before, is waited out until `signal`
 * aborts.
 * @throws AggregatorError, TransportError, WireError; a failure to read is never taken for an empty repository.
 */
export async function openRun(options: OpenOptions): Promise<LiveRun> {
  const { transport, signal } = options;
  const opening: Opening = { options, takenFrom: undefined };
  let revision = await firstAnswer(options);
  const isMissing = revision === undefined;
  for (let failures = 0; ; ) {
    try {
      if (revision === undefined) {
        if (isMissing) await transport.create({ signal });
        revision = await transport.head({ signal });
      }
      return await openAt(opening, revision);
    } catch (error) {
      revision = undefined;
      if (error instanceof MovedError) continue;
      await waitFor(options, error, ++failures);
    }
  }
}

/** Waits where trying again may help. @throws what is no temporary trouble, or once `signal` aborts. */
async function waitFor(
  { surroundings, pollIntervalMs, random, signal, onEvent }: OpenOptions,
  error: unknown,
  failures: number,
): Promise<void> {
  if (signal?.aborted || !isTemporary(error)) throw error;
  const waitMs = patienceMs(error, failures, pollIntervalMs, random);
  onEvent?.("aggregator_waiting", waitingPayload(error, waitMs));
  await surroundings.clock.sleep(waitMs, signal);
  if (signal?.aborted) throw error;
}

interface Opening {
  readonly options: OpenOptions;
  /** Whose run it was when it was looked at first. */
  takenFrom: { readonly masterId: string | undefined } | undefined;
}

/** Whether there are files of a version that an earlier process of this master fetched or published. */
async function hasBeenRead({ transport, surroundings }: OpenOptions): Promise<boolean> {
  return (await surroundings.scratch.list(scratchName(transport, "global/"))).length > 0;
}

/** The head; undefined if the repository is not there and may be made. */
async function firstAnswer(options: OpenOptions): Promise<string | undefined> {
  const { transport, bootstrap, signal } = options;
  const isKnown = await hasBeenRead(options);
  for (let failures = 0; ; ) {
    try {
      return await transport.head({ signal });
    } catch (error) {
      const isMissing = error instanceof TransportError && error.problem === "not_found";
      if (isMissing && bootstrap !== undefined) return undefined;
      if (!isKnown) throw error;
      await waitFor(options, error, ++failures);
    }
  }
}

async function openAt(opening: Opening, revision: string): Promise<LiveRun> {
  const { options } = opening;
  const { transport, bootstrap, signal } = options;
  const head = await readRunHead(transport, revision, signal);
  if (head !== undefined) return claimRun({ ...options, takeOver: mayTakeOver(opening, head) }, head);
  if (bootstrap === undefined) {
    throw new AggregatorError(
      "no_run",
      `${transport.title} has no run yet; start one from a configuration (speedtronic aggregate --config)`,
    );
  }
  const started = await bootstrapRun({ ...options, bootstrap }, revision);
  if (started !== undefined) return started;
  // Another one published first; claiming then says who.
  throw new MovedError(`${transport.title}: another master has started the run`);
}

/** A run is taken from the master that had it at first, and from no other one that came in between two tries. */
function mayTakeOver(opening: Opening, { facts: { owner } }: RunHead): boolean {
  opening.takenFrom ??= { masterId: owner?.masterId };
  return opening.options.takeOver === true && opening.takenFrom.masterId === owner?.masterId;
}
