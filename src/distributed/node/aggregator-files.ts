// The files that a round is made of, on this machine: those that were fetched before, or fetched again where the disk
// has lost or damaged them.

import { openSafetensors } from "../../formats/safetensors/index.js";
import type { RoundDelta } from "../protocol/master-contract.js";
import type { Transport } from "../transports/contract.js";
import { WireError } from "../wire/errors.js";
import { checkMomentum } from "../wire/outer-step.js";
import { realEntries } from "../wire/state.js";
import { AggregatorError } from "./aggregator-errors.js";
import { damaged, deltaCacheName, fetchFile } from "./aggregator-repository.js";
import type { LiveRun } from "./aggregator-run.js";
import type { ScratchFile, Surroundings } from "./aggregator-surroundings.js";

/** Weights and momentum of the run's version. @throws AggregatorError `damaged_repository`; TransportError. */
export async function presentFiles(
  transport: Transport,
  surroundings: Surroundings,
  { head, state, momentum }: LiveRun,
  signal?: AbortSignal,
): Promise<Pick<LiveRun, "state" | "momentum">> {
  const { revision, record, facts } = head;
  const again = ({ name, sha256 }: ScratchFile, path: string) =>
    fetchFile(transport, surroundings, { revision, path, name, sha256 }, signal);
  return {
    state: await again(state, record.modelFile),
    momentum:
      momentum === undefined || facts.momentumFile === undefined
        ? momentum
        : await again(momentum, facts.momentumFile),
  };
}

/** A momentum that does not fit would end every round. @throws AggregatorError `damaged_repository`. */
export async function requireFittingMomentum(
  transport: Transport,
  path: string,
  state: ScratchFile,
  momentum: ScratchFile,
): Promise<void> {
  const sources = [await state.open(), await momentum.open()];
  try {
    const [weights, buffers] = [await openSafetensors(sources[0]!), await openSafetensors(sources[1]!)];
    checkMomentum(buffers, { name: "the global state", entries: realEntries(weights, "the global state") });
  } catch (error) {
    if (!(error instanceof WireError)) throw error;
    throw damaged(transport, path, `does not fit the weights (${error.message})`);
  } finally {
    for (const source of sources) await source.close?.();
  }
}

/** A delta as it was inspected. @throws AggregatorError `scratch_lost`; TransportError. */
export async function presentDelta(
  transport: Transport,
  surroundings: Surroundings,
  { head }: LiveRun,
  delta: RoundDelta,
  signal?: AbortSignal,
): Promise<ScratchFile> {
  const { path, sha256 } = delta;
  const name = deltaCacheName(transport, delta, surroundings.hasher);
  const request = { revision: head.revision, path, name, sha256 };
  try {
    return await fetchFile(transport, surroundings, request, signal);
  } catch (error) {
    if (!(error instanceof AggregatorError)) throw error;
    // Its node has put another file there since.
    const message = `the cached copy of ${path} is gone or damaged, and the repository has another file there now; start the aggregator again, which looks at it anew`;
    throw new AggregatorError("scratch_lost", message, { details: { path }, cause: error });
  }
}
