// One round decided: every delta that is known gets a fate, those in the sum a weight, and the next version a ledger.
// The same listing, inspections and settings give the same plan on any machine.

import { compareDeltaPaths } from "../wire/delta-path.js";
import {
  appendEntries,
  compactLedger,
  findApplied,
  findByContentId,
  findBySha256,
  type Ledger,
  type LedgerEntry,
} from "./ledger.js";
import type { FatesPlan, Inspection, ListedDelta, MasterState, RoundPlan } from "./master-contract.js";
import { mergeWeights, momentumAt } from "./merge-policy.js";

/** Versions for which the ledger keeps entries of files that are gone, so that nodes learn what became of them. */
export const LEDGER_VERSIONS = 256;

/**
 * No training makes a longer delta. Without a clip one that is just finite would go into the momentum, and every later
 * round would come out infinite, whatever honest deltas it is made of.
 */
const LONGEST_NORM = 1e30;

type GoodInspection = Extract<Inspection, { readonly ok: true }>;

export interface UsableDelta {
  readonly listed: ListedDelta;
  readonly inspection: GoodInspection;
  readonly age: number;
}

/** Before weights: what a round would make of everything inspected. */
export interface Sorting {
  /** In the order of the sum. */
  readonly usable: readonly UsableDelta[];
  /** Fates of the others. */
  readonly unusable: readonly LedgerEntry[];
  /** Entries of earlier versions, under the content ids that the repository shows now. */
  readonly renamed: readonly LedgerEntry[];
}

/**
 * Which deltas the next round can use. Reasons are a code, and details after a colon.
 */
export function sortDeltas(state: MasterState, parent: number): Sorting {
  const usable: UsableDelta[] = [];
  const unusable: LedgerEntry[] = [];
  const renamed: LedgerEntry[] = [];
  const pathBySha256 = new Map<string, string>();
  const known = [...state.known.values()].sort((a, b) => compareListed(a.listed, b.listed));
  for (const { listed, inspection } of known) {
    if (inspection === "waiting" || inspection === "failed") continue;
    const drop = (fate: "stale" | "rejected", reason: string) => {
      const { path, nodeId, contentId } = listed;
      const sha256 = inspection.sha256 ?? null;
      unusable.push({ path, nodeId, sha256, contentId, fate, outerStep: parent + 1, weight: 0, reason });
    };
    if (!inspection.ok) {
      drop("rejected", inspection.reason);
      continue;
    }
    const earlier = findBySha256(state.ledger, listed.path, inspection.sha256);
    if (earlier !== undefined) {
      renamed.push({ ...earlier, contentId: listed.contentId });
      continue;
    }
    const twin = pathBySha256.get(inspection.sha256) ?? findApplied(state.ledger, inspection.sha256)?.path;
    const age = parent - inspection.baseOuterStep;
    if (inspection.isZero) drop("rejected", "empty: every value is 0");
    else if (!Number.isFinite(inspection.norm))
      drop("rejected", `non_finite: its norm is ${inspection.norm}`);
    else if (inspection.norm > LONGEST_NORM)
      drop("rejected", `overflow: its norm is ${inspection.norm}, sums of such deltas leave float32`);
    else if (twin !== undefined) drop("rejected", `duplicate: the same content as ${twin}`);
    else if (age < 0) {
      drop("rejected", `unknown_base: based on version ${inspection.baseOuterStep}, the newest is ${parent}`);
    } else if (age > state.settings.stalenessLimit) {
      drop("stale", `stale: based on version ${inspection.baseOuterStep}, ${age} before ${parent}`);
    } else {
      pathBySha256.set(inspection.sha256, listed.path);
      usable.push({ listed, inspection, age });
    }
  }
  return { usable, unusable, renamed };
}

/** The plan of the round that follows version `parent`. `usable` must not be empty. */
export function planRound(state: MasterState, parent: number, sorting: Sorting): RoundPlan {
  const { settings } = state;
  const outerStep = parent + 1;
  const { usable, unusable, renamed } = sorting;
  const inputs = usable.map(({ listed, inspection: { tokens, norm }, age }) => ({
    nodeId: listed.nodeId,
    tokens,
    norm,
    age,
  }));
  const { weights, norms } = mergeWeights(inputs, state.norms, settings);
  const perNode = new Map<string, number>();
  for (const { listed } of usable) perNode.set(listed.nodeId, (perNode.get(listed.nodeId) ?? 0) + 1);
  const used = usable.map(({ listed, inspection }, i): LedgerEntry => {
    const { path, nodeId, contentId } = listed;
    const fate = perNode.get(nodeId) === 1 ? "applied" : "merged";
    return {
      path,
      nodeId,
      sha256: inspection.sha256,
      contentId,
      fate,
      outerStep,
      weight: weights[i]!,
      reason: "",
    };
  });
  const decided = [...used, ...unusable];
  const ledger = appendEntries(state.ledger, [...renamed, ...decided]);
  return {
    outerStep,
    parentOuterStep: parent,
    deltas: usable.map(({ listed: { path, nodeId, contentId }, inspection: { sha256, shards } }, i) => ({
      path,
      nodeId,
      contentId,
      sha256,
      weight: weights[i]!,
      ...(shards === undefined ? {} : { shards }),
    })),
    usesPlainMean: settings.merge === "python",
    lr: settings.outerLr,
    mu: momentumAt(outerStep, settings.outerMomentum, settings.momentumWarmupRounds),
    ledger: compactLedger(ledger, {
      upTo: outerStep - Math.max(LEDGER_VERSIONS, settings.keepVersions),
      listed: state.listed,
    }),
    decided,
    deletions: deletionsAt(outerStep - settings.keepVersions, ledger, state.listed),
    norms,
  };
}

/** What is told of refused deltas after version `outerStep`, which no longer waits for a round. */
export function planFates(ledger: Ledger, outerStep: number, { unusable, renamed }: Sorting): FatesPlan {
  const decided = unusable.map((entry) => ({ ...entry, outerStep }));
  return { outerStep, ledger: appendEntries(ledger, [...renamed, ...decided]), decided };
}

/** Files whose content was decided in version `upTo` or before. A newer file under an old path is not among them. */
function deletionsAt(upTo: number, ledger: Ledger, listed: ReadonlyMap<string, string>): string[] {
  return [...listed]
    .filter(([path, contentId]) => {
      const entry = findByContentId(ledger, path, contentId);
      return entry !== undefined && entry.outerStep <= upTo;
    })
    .map(([path]) => path)
    .sort();
}

/** The code of a reason: what stands before the colon. */
export function reasonCode(reason: string): string {
  return /^[a-z_]+(?=:|$)/.exec(reason)?.[0] ?? "invalid";
}

function compareListed(a: ListedDelta, b: ListedDelta): number {
  return compareDeltaPaths(asPath(a), asPath(b));
}

function asPath({ path, nodeId, number }: ListedDelta) {
  return { kind: "delta", path, nodeId, localStep: number } as const;
}
