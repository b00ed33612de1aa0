// One delta into the repository, as one commit. Everybody commits to the same line, so that losing the race for the
// head is normal; after an answer that got lost the listing tells whether the commit was made.

import type { PendingDelta } from "../protocol/worker-contract.js";
import type { FileContent, Transport } from "../transports/contract.js";
import { TransportError } from "../transports/errors.js";
import { duplicateId, type TwinWatch } from "./twin-watch.js";

/** Races lost in a row before it counts as a failure. */
const MAX_CONFLICTS = 20;

export interface SendOptions {
  readonly content: FileContent;
  readonly signal: AbortSignal;
  /** An earlier try, maybe of an earlier process, may have got through: look first. */
  readonly mayBeThere: boolean;
  /** Looks out for another process of the same node. */
  readonly twins?: TwinWatch;
  /** The other one came later. */
  onTwin?(path: string): void;
  /** Waits a little after the `lost`th lost race. */
  pause(lost: number): Promise<void>;
}

/** @throws TransportError; NodeError `node.duplicate_id`. */
export async function sendDelta(
  transport: Transport,
  delta: PendingDelta,
  options: SendOptions,
): Promise<void> {
  const { content, signal, twins, pause } = options;
  const { path, steps } = delta;
  let shouldLook = options.mayBeThere;
  for (let lost = 0; ; lost++) {
    if (lost > 0) await pause(lost);
    signal.throwIfAborted();
    const parent = await transport.head({ signal });
    if (twins !== undefined || shouldLook) {
      const files = await transport.list(parent, twins?.prefix ?? path, { signal });
      const present = files.find((file) => file.path === path);
      if (shouldLook && present?.sizeBytes === content.sizeBytes) {
        twins?.sent();
        return;
      }
      if (twins !== undefined) {
        if (present !== undefined && !shouldLook) throw duplicateId(twins.nodeId, path);
        const twin = twins.look(
          files.map((file) => file.path),
          path,
        );
        if (twin !== undefined) options.onTwin?.(twin.path);
      }
    }
    try {
      const message = `delta ${path} (${steps} steps)`;
      await transport.commit({ parent, message, operations: [{ kind: "put", path, content }] }, { signal });
      twins?.sent();
      return;
    } catch (error) {
      if (!(error instanceof TransportError) || lost >= MAX_CONFLICTS) throw error;
      if (error.problem === "ambiguous") shouldLook = true;
      else if (error.problem !== "conflict") throw error;
    }
  }
}
