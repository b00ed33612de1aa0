// One delta into the repository, as one commit. Everybody commits to the same line, so that losing the race for the
// head is normal; after an answer that got lost the listing tells whether the commit was made.

import type { PendingDelta } from "../protocol/worker-contract.js";
import type { FileContent, Transport } from "../transports/contract.js";
import { TransportError } from "../transports/errors.js";

/** Races lost in a row before it counts as a failure. */
const MAX_CONFLICTS = 20;

export interface SendOptions {
  readonly content: FileContent;
  readonly signal: AbortSignal;
  /** An earlier try, maybe of an earlier process, may have got through: look first. */
  readonly mayBeThere: boolean;
  /** Waits a little after the `lost`th lost race. */
  pause(lost: number): Promise<void>;
}

/** @throws TransportError. */
export async function sendDelta(
  transport: Transport,
  delta: PendingDelta,
  options: SendOptions,
): Promise<void> {
  const { content, signal, pause } = options;
  const { path, steps } = delta;
  let shouldLook = options.mayBeThere;
  for (let lost = 0; ; lost++) {
    if (lost > 0) await pause(lost);
    signal.throwIfAborted();
    const parent = await transport.head({ signal });
    if (shouldLook && (await isThere(transport, parent, path, content.sizeBytes, signal))) return;
    try {
      const message = `delta ${path} (${steps} steps)`;
      await transport.commit({ parent, message, operations: [{ kind: "put", path, content }] }, { signal });
      return;
    } catch (error) {
      if (!(error instanceof TransportError) || lost >= MAX_CONFLICTS) throw error;
      if (error.problem === "ambiguous") shouldLook = true;
      else if (error.problem !== "conflict") throw error;
    }
  }
}

async function isThere(
  transport: Transport,
  revision: string,
  path: string,
  sizeBytes: number,
  signal: AbortSignal,
): Promise<boolean> {
  const files = await transport.list(revision, path, { signal });
  return files.some((file) => file.path === path && file.sizeBytes === sizeBytes);
}
