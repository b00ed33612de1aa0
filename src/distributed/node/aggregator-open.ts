// How an aggregator begins: with the run in the repository, or with a new one.

import { TransportError } from "../transports/errors.js";
import { bootstrapRun } from "./aggregator-bootstrap.js";
import { AggregatorError } from "./aggregator-errors.js";
import { readRunHead } from "./aggregator-repository.js";
import { claimRun, type LiveRun, MovedError, type RunOptions } from "./aggregator-run.js";

/** @throws AggregatorError, TransportError, WireError; a failure to read is never taken for an empty repository. */
export async function openRun(options: RunOptions): Promise<LiveRun> {
  const { transport, bootstrap, signal } = options;
  let revision: string;
  try {
    revision = await transport.head({ signal });
  } catch (error) {
    const isMissing = error instanceof TransportError && error.problem === "not_found";
    if (!isMissing || bootstrap === undefined) throw error;
    await transport.create({ signal });
    revision = await transport.head({ signal });
  }
  for (;;) {
    const head = await readRunHead(transport, revision, signal);
    if (head !== undefined) {
      try {
        return await claimRun(options, head);
      } catch (error) {
        if (!(error instanceof MovedError)) throw error;
        revision = await transport.head({ signal });
        continue;
      }
    }
    if (bootstrap === undefined) {
      throw new AggregatorError(
        "no_run",
        `${transport.title} has no run yet; start one from a configuration (speedtronic aggregate --config)`,
      );
    }
    const started = await bootstrapRun({ ...options, bootstrap }, revision);
    if (started !== undefined) return started;
    // Another one published first; claiming then says who.
    revision = await transport.head({ signal });
  }
}
