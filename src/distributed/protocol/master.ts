// The outer loop as a reducer: which deltas to look into, when a round starts, and what it consists of. Nothing counts
// before it is published: a plan that fails leaves the state as it was, ledger and norms included.

import { ProtocolError } from "./errors.js";
import { findByContentId, isLongDecided, type Ledger, type LedgerEntry } from "./ledger.js";
import type {
  Inspection,
  ListedDelta,
  MasterEffect,
  MasterEvent,
  MasterStart,
  MasterState,
  MasterStep,
  MergeSettings,
  RoundPlan,
} from "./master-contract.js";
import { planFates, planRound, reasonCode, type Sorting, sortDeltas } from "./round.js";
import { deferredDeltas } from "./turns.js";

/** Rounds that a quorum of null looks back on. */
const QUORUM_ROUNDS = 4;
/** Between two commits that only tell fates, however short the grace is: a stranger must not use up the commits. */
const SHORTEST_FATES_MS = 10_000;

export function createMaster(
  settings: MergeSettings,
  { outerStep, ledger, norms }: MasterStart,
): MasterState {
  checkSettings(settings);
  return {
    settings,
    outerStep,
    ledger,
    known: new Map(),
    nowMs: 0,
    listed: new Map(),
    deferred: [],
    norms,
    publishing: undefined,
    publishingFates: undefined,
    fatesFailedAtMs: undefined,
    isDraining: false,
  };
}

/**
 * The state after an event, and what is to be done. Nothing is changed in place.
 * @throws ProtocolError `protocol.out_of_order` when a version is published that is not the planned one.
 */
export function stepMaster(state: MasterState, event: MasterEvent): MasterStep {
  const draft: Draft = { ...state, effects: [] };
  handlers[event.type](draft, event as never);
  // After a failure, not before something else has happened.
  if (event.type !== "publish_failed" && event.type !== "fates_failed") startRound(draft);
  const { effects, ...next } = draft;
  return { state: next, effects };
}

/** Whether a draining master has nothing left to do; ask after a listing made when all nodes had stopped. */
export function isDrained(state: MasterState): boolean {
  const { isDraining, publishing, publishingFates, known, deferred, outerStep } = state;
  const isBusy = publishing !== undefined || publishingFates !== undefined || deferred.length > 0;
  if (!isDraining || isBusy || outerStep === undefined) return false;
  if ([...known.values()].some(({ inspection }) => inspection === "waiting" || inspection === "failed"))
    return false;
  return sortDeltas(state, outerStep).usable.length === 0;
}

type Draft = { -readonly [Key in keyof MasterState]: MasterState[Key] } & {
  readonly effects: MasterEffect[];
};
type EventOf<Type extends MasterEvent["type"]> = Extract<MasterEvent, { readonly type: Type }>;
type Known = MasterState["known"] extends ReadonlyMap<string, infer Value> ? Value : never;

const handlers: { readonly [Type in MasterEvent["type"]]: (draft: Draft, event: EventOf<Type>) => void } = {
  listed(draft, { nowMs, deltas }) {
    draft.nowMs = Math.max(draft.nowMs, nowMs);
    draft.listed = new Map(deltas.map(({ path, contentId }) => [path, contentId]));
    const known = new Map<string, Known>();
    const deferred = deferredDeltas(draft, deltas);
    draft.deferred = [...deferred];
    for (const listed of deltas) {
      if (deferred.has(listed)) continue;
      const { path, contentId } = listed;
      if (findByContentId(draft.ledger, path, contentId) !== undefined) continue;
      const before = draft.known.get(path);
      const isSame = before?.listed.contentId === contentId;
      if (isSame && before.inspection !== "failed") {
        known.set(path, before);
        continue;
      }
      const seenAtMs = isSame ? before.seenAtMs : draft.nowMs;
      if (isLongDecided(draft.ledger, listed.nodeId, listed.number)) {
        const reason =
          "decided_before: a version so old that the ledger has no entry any more counted or refused it";
        known.set(path, { listed, inspection: { ok: false, reason, sha256: undefined }, seenAtMs });
        report(draft, listed, reason);
      } else {
        known.set(path, { listed, inspection: "waiting", seenAtMs });
        draft.effects.push({ type: "inspect", delta: listed });
      }
    }
    draft.known = known;
  },

  inspected(draft, { path, contentId, inspection }) {
    const before = setInspection(draft, path, contentId, inspection);
    if (before !== undefined && !inspection.ok) report(draft, before.listed, inspection.reason);
  },

  inspection_failed(draft, { path, contentId, error }) {
    if (setInspection(draft, path, contentId, "failed") === undefined) return;
    emit(draft, "delta_unreadable", { path, error });
  },

  tick(draft, { nowMs }) {
    draft.nowMs = Math.max(draft.nowMs, nowMs);
  },

  published(draft, { outerStep }) {
    const plan = draft.publishing;
    if (plan === undefined && draft.outerStep === undefined) {
      draft.outerStep = outerStep;
      return;
    }
    if (plan?.outerStep !== outerStep) {
      const expected =
        plan === undefined ? "none is being published" : `${plan.outerStep} is being published`;
      throw new ProtocolError(
        "out_of_order",
        `version ${outerStep} is reported as published, but ${expected}`,
      );
    }
    draft.outerStep = outerStep;
    draft.ledger = plan.ledger;
    draft.norms = plan.norms;
    draft.publishing = undefined;
    draft.listed = new Map([...draft.listed].filter(([path]) => !plan.deletions.includes(path)));
    reportDecided(draft, plan.decided);
    draft.known = withoutDecided(draft.known, plan.ledger);
    emit(draft, "outer_step", countFates(plan, draft));
  },

  publish_failed(draft, { error }) {
    const plan = draft.publishing;
    if (plan === undefined) return;
    draft.publishing = undefined;
    emit(draft, "publish_failed", { outer_step: plan.outerStep, error });
  },

  fates_published(draft) {
    const plan = draft.publishingFates;
    if (plan === undefined) return;
    draft.publishingFates = undefined;
    draft.fatesFailedAtMs = undefined;
    draft.ledger = plan.ledger;
    reportDecided(draft, plan.decided);
    draft.known = withoutDecided(draft.known, plan.ledger);
  },

  fates_failed(draft, { error }) {
    const plan = draft.publishingFates;
    if (plan === undefined) return;
    draft.publishingFates = undefined;
    draft.fatesFailedAtMs = draft.nowMs;
    emit(draft, "publish_failed", { outer_step: plan.outerStep, error });
  },

  drain(draft) {
    draft.isDraining = true;
  },
};

/** What was good to look at and is refused all the same; the rest was told when it was looked at. */
function reportDecided(draft: Draft, decided: readonly LedgerEntry[]): void {
  for (const { path, nodeId, fate, reason } of decided) {
    const inspection = draft.known.get(path)?.inspection;
    if (typeof inspection !== "object" || !inspection.ok || reason === "") continue;
    emit(draft, "delta_rejected", { path, node_id: nodeId, fate, reason });
  }
}

function withoutDecided(known: MasterState["known"], ledger: Ledger): MasterState["known"] {
  const open = [...known].filter(
    ([path, { listed }]) => findByContentId(ledger, path, listed.contentId) === undefined,
  );
  return new Map(open);
}

/** Starts the next round if it is time. */
function startRound(draft: Draft): void {
  if (draft.publishing !== undefined || draft.publishingFates !== undefined) return;
  if (draft.outerStep === undefined) return;
  const sorting = sortDeltas(draft, draft.outerStep);
  if (isTimeForFates(draft, sorting)) {
    const plan = planFates(draft.ledger, draft.outerStep, sorting);
    draft.publishingFates = plan;
    draft.effects.push({ type: "publish_fates", plan });
    return;
  }
  if (!isTime(draft, sorting)) return;
  const plan = planRound(draft, draft.outerStep, sorting);
  draft.publishing = plan;
  draft.effects.push({ type: "publish", plan });
}

/**
 * A round needs something to add up, and the quorum, or patience at its end. What is being looked into is waited for as
 * long; while draining, however long it takes.
 */
function isTime(
  { settings, known, nowMs, isDraining, ledger, outerStep }: Draft,
  { usable }: Sorting,
): boolean {
  if (usable.length === 0) return false;
  const isWaiting = [...known.values()].some(({ inspection }) => inspection === "waiting");
  if (isDraining) return !isWaiting;
  const firstSeenMs = Math.min(...usable.map(({ listed }) => known.get(listed.path)!.seenAtMs));
  if (nowMs - firstSeenMs >= settings.graceMs) return true;
  if (isWaiting) return false;
  const nodes = new Set(usable.map(({ listed }) => listed.nodeId));
  if (settings.quorum !== null) return nodes.size >= settings.quorum;
  return [...recentNodes(ledger, outerStep)].every((nodeId) => nodes.has(nodeId));
}

/** Refused deltas whose node has waited as long for a word as others wait for a round, and no round is coming. */
function isTimeForFates(
  { settings, known, nowMs, isDraining, fatesFailedAtMs }: Draft,
  { usable, unusable }: Sorting,
): boolean {
  if (usable.length > 0 || unusable.length === 0) return false;
  const isWaiting = [...known.values()].some(({ inspection }) => inspection === "waiting");
  if (isDraining) return !isWaiting && fatesFailedAtMs === undefined;
  const waitMs = Math.max(settings.graceMs, SHORTEST_FATES_MS);
  if (fatesFailedAtMs !== undefined && nowMs - fatesFailedAtMs < waitMs) return false;
  const firstSeenMs = Math.min(...unusable.map(({ path }) => known.get(path)!.seenAtMs));
  return nowMs - firstSeenMs >= waitMs;
}

/** Nodes in the sum of one of the last rounds. One that is gone is waited for in that many rounds, no longer. */
function recentNodes({ entries }: Ledger, outerStep = 0): Set<string> {
  const isRecent = (entry: LedgerEntry) => entry.weight > 0 && entry.outerStep > outerStep - QUORUM_ROUNDS;
  return new Set(entries.filter(isRecent).map(({ nodeId }) => nodeId));
}

/** Undefined when the answer is about content that is not there any more. */
function setInspection(
  draft: Draft,
  path: string,
  contentId: string,
  inspection: Inspection | "failed",
): Known | undefined {
  const before = draft.known.get(path);
  if (before?.listed.contentId !== contentId || before.inspection !== "waiting") return undefined;
  draft.known = new Map(draft.known).set(path, { ...before, inspection });
  return before;
}

function countFates(
  { outerStep, decided, deltas }: RoundPlan,
  { known, deferred }: Draft,
): Record<string, unknown> {
  const reasons: Record<string, number> = {};
  for (const { fate, reason } of decided) {
    if (fate !== "stale" && fate !== "rejected") continue;
    const code = reasonCode(reason);
    reasons[code] = (reasons[code] ?? 0) + 1;
  }
  return {
    outer_step: outerStep,
    deltas_found: decided.length,
    deltas_included: deltas.length,
    nodes: new Set(deltas.map(({ nodeId }) => nodeId)).size,
    deltas_refused: reasons,
    deltas_waiting: known.size + deferred.length,
  };
}

function report(draft: Draft, { path, nodeId }: ListedDelta, reason: string): void {
  emit(draft, "delta_rejected", { path, node_id: nodeId, fate: "rejected", reason });
}

function emit(draft: Draft, event: string, payload: Readonly<Record<string, unknown>>): void {
  draft.effects.push({ type: "emit", event, payload });
}

function checkSettings(settings: MergeSettings): void {
  const require = (isGood: boolean, name: keyof MergeSettings, must: string) => {
    if (isGood) return;
    throw new ProtocolError("invalid_setting", `${name} is ${settings[name]}, it must be ${must}`);
  };
  const { outerLr, outerMomentum, stalenessDiscount, clipFactor, quorum } = settings;
  require(Number.isFinite(outerLr) && outerLr > 0, "outerLr", "a number above 0");
  require(outerMomentum >= 0 && outerMomentum < 1, "outerMomentum", "from 0 to below 1");
  require(settings.momentumWarmupRounds >= 0, "momentumWarmupRounds", "0 or more");
  require(settings.stalenessLimit >= 0, "stalenessLimit", "0 or more");
  require(stalenessDiscount > 0 && stalenessDiscount <= 1, "stalenessDiscount", "above 0, at most 1");
  require(clipFactor === null || clipFactor > 0, "clipFactor", "null or above 0");
  const isQuorum = quorum === null || (Number.isSafeInteger(quorum) && quorum >= 1);
  require(isQuorum, "quorum", "null or an integer from 1");
  require(settings.graceMs >= 0, "graceMs", "0 or more");
  require(settings.keepVersions >= 0, "keepVersions", "0 or more");
}
