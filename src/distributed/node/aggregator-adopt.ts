// Deltas from the time of another master.
//
// Taking over from a Python master, which publishes neither ledger nor momentum: every delta that lies in the
// repository with a base below its version is entered as applied with weight 0, since it may be in the weights and
// must not be counted again; one that came too late for it is lost by that. Deltas on the version itself were made
// after its publication and count as usual. Momentum starts from zero.

import { openSafetensors } from "../../formats/safetensors/index.js";
import type { Ledger, LedgerEntry } from "../protocol/ledger.js";
import { parseDeltaHeader } from "../wire/delta-header.js";
import { deltaModel, maxDeltaBytes } from "./aggregator-inspect.js";
import { deltaCacheName, fetchFile, listDeltas, type RunHead } from "./aggregator-repository.js";
import type { RunOptions } from "./aggregator-run.js";
import type { ScratchFile } from "./aggregator-surroundings.js";

/** The ledger of a run whose master kept none; see the head of this file. */
export async function adoptDeltas(
  { transport, surroundings, signal, onEvent }: RunOptions,
  { revision, record }: RunHead,
  state: ScratchFile,
): Promise<Ledger> {
  const entries: LedgerEntry[] = [];
  const limit = maxDeltaBytes(await deltaModel(state, undefined));
  for (const delta of await listDeltas(transport, revision, signal)) {
    // Rejected by the first round, with the reason.
    if (delta.sizeBytes > limit) continue;
    const name = deltaCacheName(transport, delta, surroundings.hasher);
    const file = await fetchFile(
      transport,
      surroundings,
      { revision, path: delta.path, name, sha256: undefined },
      signal,
    );
    const base = await baseOf(file);
    // Unreadable ones are rejected by the first round as well.
    if (base === undefined || base >= record.outerStep) continue;
    await surroundings.scratch.remove(name);
    entries.push({
      path: delta.path,
      nodeId: delta.nodeId,
      sha256: file.sha256,
      contentId: delta.contentId,
      fate: "applied",
      outerStep: record.outerStep,
      weight: 0,
      reason: "from the time of a master without a ledger",
    });
  }
  onEvent?.("ledger_adopted", { outer_step: record.outerStep, deltas: entries.length });
  return { entries };
}

async function baseOf(file: ScratchFile): Promise<number | undefined> {
  const source = await file.open();
  try {
    const { metadata } = await openSafetensors(source);
    return parseDeltaHeader(metadata).baseOuterStep;
  } catch {
    return undefined;
  } finally {
    await source.close?.();
  }
}
