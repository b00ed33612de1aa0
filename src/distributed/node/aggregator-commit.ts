// A commit whose outcome is known in the end: a conflict or a lost answer is resolved by reading the head, and what
// was made already is not made again.

import { type BackoffSettings, backoffMs, raceMs } from "../transports/backoff.js";
import type { CommitRequest, Transport } from "../transports/contract.js";
import { TransportError } from "../transports/errors.js";
import { type RunHead, readRunHead } from "./aggregator-repository.js";
import type { Clock } from "./clock.js";

const MAX_ATTEMPTS = 12;
const WAITS: BackoffSettings = { initialMs: 250, maxMs: 15_000 };

export interface CheckedCommit {
  /** The head as it was last seen. */
  readonly parent: string;
  build(parent: string): Promise<CommitRequest> | CommitRequest;
  /** What a newer head means: the commit is in it, it may be tried again on top of it, or (throws) it must not be. */
  look(head: RunHead | undefined): "done" | "again";
  /** From 0 to below 1. Default: Math.random. */
  readonly random?: (() => number) | undefined;
  /** For logs. */
  onTrouble?(problem: string, message: string): void;
}

/**
 * Returns the revision that contains the commit.
 * @throws TransportError when it is permanent, or lasts; what `look` throws. After a lasting error the commit may have
 *   been made all the same.
 */
export async function commitChecked(
  transport: Transport,
  clock: Clock,
  request: CheckedCommit,
  signal?: AbortSignal,
): Promise<string> {
  const { random = Math.random } = request;
  let { parent } = request;
  let mustLook = false;
  let lost = 0;
  let failures = 0;
  for (let attempt = 1; ; attempt++) {
    signal?.throwIfAborted();
    try {
      if (mustLook) {
        const revision = await transport.head({ signal });
        if (request.look(await readRunHead(transport, revision, signal)) === "done") return revision;
        parent = revision;
        mustLook = false;
      }
      return await transport.commit(await request.build(parent), { signal });
    } catch (error) {
      if (!(error instanceof TransportError)) throw error;
      const isResolvable = error.problem === "conflict" || error.problem === "ambiguous";
      // An earlier doubt stays until a look has settled it.
      mustLook ||= isResolvable;
      if (!(isResolvable || error.isTransient) || attempt === MAX_ATTEMPTS) throw error;
      request.onTrouble?.(error.problem, error.message);
      // A conflict is a worker that was faster by a moment.
      const waitMs =
        error.problem === "conflict"
          ? raceMs(++lost, WAITS, random)
          : backoffMs(++failures, WAITS, random, error.retryAfterMs);
      await clock.sleep(waitMs, signal);
    }
  }
}
