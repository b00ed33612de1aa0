// A commit whose outcome is known in the end: a conflict or a lost answer is resolved by reading the head, and what
// was made already is not made again.

import type { CommitRequest, Transport } from "../transports/contract.js";
import { TransportError } from "../transports/errors.js";
import { type RunHead, readRunHead } from "./aggregator-repository.js";
import type { Clock } from "./clock.js";

const MAX_ATTEMPTS = 12;
const FIRST_WAIT_MS = 250;
const LONGEST_WAIT_MS = 15_000;

export interface CheckedCommit {
  /** The head as it was last seen. */
  readonly parent: string;
  build(parent: string): Promise<CommitRequest> | CommitRequest;
  /** What a newer head means: the commit is in it, it may be tried again on top of it, or (throws) it must not be. */
  look(head: RunHead | undefined): "done" | "again";
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
  let { parent } = request;
  let mustLook = false;
  let waitMs = FIRST_WAIT_MS;
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
      // A conflict is usually a worker that was faster by a moment: once more at once, then with patience.
      if (error.problem === "conflict" && attempt < 4) continue;
      await clock.sleep(error.retryAfterMs ?? waitMs, signal);
      waitMs = Math.min(2 * waitMs, LONGEST_WAIT_MS);
    }
  }
}
