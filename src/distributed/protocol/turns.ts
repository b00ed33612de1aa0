// How much of one node is looked into at a time: a node that runs wild must fill neither the disk nor the round of the
// others. What is beyond waits for its turn; nothing is refused for being many.

import { findByContentId } from "./ledger.js";
import type { ListedDelta, MasterState } from "./master-contract.js";
import { sortDeltas } from "./round.js";

/** Far more than a node of ours ever has without a fate; a Python node gets there while no master runs. */
export const MAX_OPEN_PER_NODE = 64;

/** The listed deltas whose turn has not come: lowest numbers go first, what no round can use takes no place. */
export function deferredDeltas(state: MasterState, deltas: readonly ListedDelta[]): ReadonlySet<ListedDelta> {
  const perNode = new Map<string, ListedDelta[]>();
  for (const delta of deltas) {
    if (findByContentId(state.ledger, delta.path, delta.contentId) !== undefined) continue;
    const of = perNode.get(delta.nodeId);
    if (of === undefined) perNode.set(delta.nodeId, [delta]);
    else of.push(delta);
  }
  const deferred = new Set<ListedDelta>();
  const crowds = [...perNode.values()].filter(({ length }) => length > MAX_OPEN_PER_NODE);
  if (crowds.length === 0) return deferred;
  const isUseless = uselessOf(state);
  for (const crowd of crowds) {
    let places = MAX_OPEN_PER_NODE;
    for (const delta of crowd.sort((a, b) => a.number - b.number)) {
      if (isUseless(delta)) continue;
      if (places > 0) places -= 1;
      else deferred.add(delta);
    }
  }
  return deferred;
}

/** Whether a delta was looked into, and no round will have it in its sum. */
function uselessOf(state: MasterState): (delta: ListedDelta) => boolean {
  const usable = new Set(sortDeltas(state, state.outerStep ?? 0).usable.map(({ listed }) => listed.path));
  return ({ path, contentId }) => {
    const known = state.known.get(path);
    if (known?.listed.contentId !== contentId || typeof known.inspection !== "object") return false;
    return !usable.has(path);
  };
}
