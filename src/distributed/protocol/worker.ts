// A training node's side of the protocol as a reducer: what to snapshot, send, fetch and install, and when. Invariant
// at all times: weights = G of `installed` - sum of the deltas in `pending` that G lacks - progress since the baseline.
// So no local step is lost, and none is in the global sum twice.

import { NO_BASE } from "../wire/delta-header.js";
import { deltaPath } from "../wire/delta-path.js";
import { ProtocolError } from "./errors.js";
import type { Ledger } from "./ledger.js";
import { MAX_OUTER_STEP, pathNumber } from "./numbers.js";
import type {
  PendingDelta,
  RestoredWorker,
  SeenVersion,
  WorkerEffect,
  WorkerEvent,
  WorkerSettings,
  WorkerState,
  WorkerStep,
} from "./worker-contract.js";
import { judge } from "./worker-fates.js";

const DEFAULT_MAX_VERSION_JUMP = 1_000_000;
/** Versions in which a node is seen as a peer. */
const PEER_VERSIONS = 8;
/** Outbox size in all, as a multiple of what may wait to be sent. */
const DEFAULT_PENDING_FACTOR = 8;

/**
 * A node's state at start; `restored` after a restart. Deltas whose sending was cut off are queued again. One whose
 * snapshot was cut off is dropped: the baseline had not moved, so that its steps count as progress again.
 * @throws ProtocolError `protocol.invalid_setting`.
 */
export function createWorker(settings: WorkerSettings, restored?: RestoredWorker): WorkerState {
  requireCount("innerSteps", settings.innerSteps);
  requireCount("maxQueued", settings.maxQueued);
  const lost = restored?.pending.filter(isCutOff) ?? [];
  const add = (start: number, part: (delta: PendingDelta) => number) =>
    lost.reduce((sum, delta) => sum + part(delta), start);
  return {
    settings,
    nextSequence: restored?.nextSequence ?? 1,
    installed: restored?.installed,
    hasLedger: restored?.hasLedger ?? false,
    localStep: restored?.localStep ?? 0,
    stepsSinceSnapshot: add(restored?.stepsSinceSnapshot ?? 0, ({ steps }) => steps),
    tokensSinceSnapshot: add(restored?.tokensSinceSnapshot ?? 0, ({ tokens }) => tokens),
    pending: (restored?.pending ?? [])
      .filter((delta) => !isCutOff(delta))
      .map((delta) => (delta.stage === "sent" ? delta : { ...delta, stage: "queued" })),
    candidate: undefined,
    flushUpTo: undefined,
    isHolding: restored?.installed === undefined,
    isBlocked: false,
    refused: undefined,
    reported: undefined,
    isStopping: false,
  };
}

/** Whether a stopping node has sent everything that it ever will: its process may end. */
export function isFlushed(state: WorkerState): boolean {
  return state.isStopping && state.pending.every(({ stage }) => stage === "sent");
}

/** The state after an event, and what is to be done. Nothing is changed in place. */
export function stepWorker(state: WorkerState, event: WorkerEvent): WorkerStep {
  const draft: Draft = { ...state, effects: [] };
  handlers[event.type](draft, event as never);
  const { effects, ...next } = draft;
  return { state: next, effects };
}

/** The next state while it is made: fields may be set, what they refer to stays as it is. */
type Draft = { -readonly [Key in keyof WorkerState]: WorkerState[Key] } & {
  readonly effects: WorkerEffect[];
};
type EventOf<Type extends WorkerEvent["type"]> = Extract<WorkerEvent, { readonly type: Type }>;

const handlers: { readonly [Type in WorkerEvent["type"]]: (draft: Draft, event: EventOf<Type>) => void } = {
  step(draft, { step, tokens }) {
    draft.localStep = step;
    draft.stepsSinceSnapshot += 1;
    draft.tokensSinceSnapshot += tokens;
    betweenSteps(draft);
    resume(draft);
  },

  idle(draft) {
    betweenSteps(draft);
    resume(draft);
  },

  retry(draft) {
    draft.isBlocked = false;
    resume(draft);
  },

  absent(draft) {
    if (draft.installed !== undefined || draft.candidate !== undefined) return;
    draft.isHolding = false;
    resume(draft);
  },

  seen(draft, { version }) {
    see(draft, version);
    resume(draft);
  },

  fetched(draft, { outerStep }) {
    const { candidate } = draft;
    if (candidate?.version.outerStep !== outerStep || candidate.stage === "ready") return;
    draft.candidate = { version: candidate.version, stage: "ready" };
  },

  fetch_failed(draft, { outerStep, error, isPermanent }) {
    const { candidate } = draft;
    if (candidate?.version.outerStep !== outerStep || candidate.stage !== "fetching") return;
    if (isPermanent) draft.refused = outerStep;
    draft.candidate = isPermanent ? undefined : { version: candidate.version, stage: "failed" };
    emit(draft, "global_fetch_failed", { outer_step: outerStep, error, is_permanent: isPermanent });
  },

  taken(draft, { sequence, sha256, isZero, isFinite: isReal }) {
    const delta = find(draft, sequence, "taking");
    if (delta === undefined) return;
    if (isZero || !isReal) {
      draft.pending = draft.pending.filter((other) => other !== delta);
      draft.effects.push({ type: "forget", delta });
      const reason = isReal ? "zero" : "non_finite";
      emit(draft, "delta_dropped", { step: delta.localStep, steps: delta.steps, reason });
    } else {
      replace(draft, { ...delta, sha256, stage: "queued" });
      const { localStep, baseOuterStep, path, steps } = delta;
      emit(draft, "delta_upload_queued", { step: localStep, base_outer_step: baseOuterStep, path, steps });
    }
    send(draft);
  },

  take_failed(draft, { sequence }) {
    const delta = find(draft, sequence, "taking");
    if (delta === undefined) return;
    draft.pending = draft.pending.filter((other) => other !== delta);
    draft.effects.push({ type: "forget", delta });
    emit(draft, "delta_dropped", { step: delta.localStep, steps: delta.steps, reason: "not_written" });
    send(draft);
  },

  sent(draft, { sequence }) {
    const delta = find(draft, sequence, "uploading");
    if (delta === undefined) return;
    replace(draft, { ...delta, stage: "sent" });
    emit(draft, "delta_uploaded", { step: delta.localStep, path: delta.path });
    send(draft);
  },

  send_failed(draft, { sequence, error, isPermanent }) {
    const delta = find(draft, sequence, "uploading");
    if (delta === undefined) return;
    // Kept in any case: the progress in it is in no other place. A permanent failure ends sending until told otherwise.
    replace(draft, { ...delta, stage: "queued" });
    if (isPermanent) draft.isBlocked = true;
    const payload = { step: delta.localStep, path: delta.path, error, is_permanent: isPermanent };
    emit(draft, "delta_upload_failed", payload);
  },

  stop(draft) {
    draft.isStopping = true;
    if (draft.candidate !== undefined) draft.isHolding = false;
    // The last snapshot may exceed the outbox: there is no later one that could take its progress along.
    if (draft.stepsSinceSnapshot > 0) snapshot(draft);
    resume(draft);
  },
};

/** The only place where weights and baseline change: no local step is under way. */
function betweenSteps(draft: Draft): void {
  if (draft.isStopping) return;
  const { candidate } = draft;
  if (candidate?.stage === "ready") {
    const { version } = candidate;
    if (version.ledger === undefined) installAfterSending(draft, version);
    else if (draft.pending.every(({ stage }) => stage !== "taking")) {
      const { keep, decided } = judge(draft.pending, version.ledger);
      install(draft, version, keep);
      for (const { delta, payload } of decided) {
        draft.effects.push({ type: "forget", delta });
        emit(draft, "delta_decided", payload);
      }
    }
  }
  const isBoundary = draft.stepsSinceSnapshot >= draft.settings.innerSteps;
  // A version that is ready goes first, else short inner loops would keep it waiting for ever.
  if (!isBoundary || draft.candidate?.stage === "ready") return;
  if (hasRoom(draft)) snapshot(draft);
  else if (draft.stepsSinceSnapshot % draft.settings.innerSteps === 0) {
    emit(draft, "delta_upload_skipped", { step: draft.localStep, reason: "queue_full" });
  }
}

/**
 * Nobody says which deltas the version contains. Everything of ours goes out first, so that some later version does,
 * and nothing of it is kept; progress made in the meantime is.
 */
function installAfterSending(draft: Draft, version: SeenVersion): void {
  draft.isHolding = false;
  if (draft.flushUpTo === undefined) {
    if (draft.stepsSinceSnapshot > 0) {
      if (!hasRoom(draft)) return;
      snapshot(draft);
    }
    draft.flushUpTo = draft.nextSequence - 1;
  }
  if (draft.pending.some(({ stage }) => stage !== "sent")) return;
  const forgotten = draft.pending;
  install(draft, version, []);
  for (const delta of forgotten) draft.effects.push({ type: "forget", delta });
}

function install(draft: Draft, version: SeenVersion, keep: readonly PendingDelta[]): void {
  draft.effects.push({ type: "install", version, keep });
  draft.installed = version.outerStep;
  draft.pending = keep;
  draft.candidate = undefined;
  draft.flushUpTo = undefined;
  draft.isHolding = false;
  emit(draft, "global_installed", {
    outer_step: version.outerStep,
    step: draft.localStep,
    kept_deltas: keep.length,
    kept_steps: draft.stepsSinceSnapshot,
    ...(version.ledger && { peers: countPeers(draft, version.outerStep, version.ledger) }),
  });
}

/** Other nodes whose deltas one of the last versions decided on. */
function countPeers({ settings }: Draft, outerStep: number, { entries }: Ledger): number {
  const recent = entries.filter((entry) => entry.outerStep > outerStep - PEER_VERSIONS);
  const nodes = new Set(recent.map(({ nodeId }) => nodeId));
  nodes.delete(settings.nodeId);
  return nodes.size;
}

function snapshot(draft: Draft): void {
  const { nodeId, salt = "" } = draft.settings;
  const sequence = draft.nextSequence;
  const delta: PendingDelta = {
    sequence,
    path: deltaPath(nodeId, pathNumber(sequence, `${nodeId}/${salt}`)),
    baseOuterStep: draft.installed ?? NO_BASE,
    localStep: draft.localStep,
    steps: draft.stepsSinceSnapshot,
    tokens: draft.tokensSinceSnapshot,
    sha256: undefined,
    stage: "taking",
  };
  draft.nextSequence = sequence + 1;
  draft.stepsSinceSnapshot = 0;
  draft.tokensSinceSnapshot = 0;
  draft.pending = [...draft.pending, delta];
  draft.effects.push({ type: "snapshot", delta });
}

function see(draft: Draft, version: SeenVersion): void {
  const { outerStep } = version;
  const { installed, candidate, settings } = draft;
  const newest = candidate?.version.outerStep ?? installed ?? -1;
  const jump = settings.maxVersionJump ?? DEFAULT_MAX_VERSION_JUMP;
  const isAbsurd = installed === undefined ? outerStep > MAX_OUTER_STEP : outerStep - installed > jump;
  if (outerStep < newest || isAbsurd) {
    if (draft.reported === outerStep) return;
    draft.reported = outerStep;
    const reason = isAbsurd ? "too_far_ahead" : "older";
    emit(draft, "version_ignored", { outer_step: outerStep, newest, reason });
    return;
  }
  if (outerStep === newest || outerStep === draft.refused) return;
  if (draft.isStopping) {
    // It is not installed any more, but a version exists: what was held back for it may go.
    draft.isHolding = false;
    return;
  }
  draft.hasLedger = version.ledger !== undefined;
  draft.candidate = { version, stage: "fetching" };
  draft.effects.push({ type: "fetch", version });
}

/** Takes up what failed, and whatever else can go on. */
function resume(draft: Draft): void {
  const { candidate } = draft;
  if (candidate?.stage === "failed" && !draft.isStopping) {
    draft.candidate = { version: candidate.version, stage: "fetching" };
    draft.effects.push({ type: "fetch", version: candidate.version });
  }
  send(draft);
}

/** One at a time and in order: numbers in the ledger say "up to here". */
function send(draft: Draft): void {
  if (draft.isHolding || draft.isBlocked) return;
  const next = draft.pending.find(({ stage }) => stage !== "sent");
  if (next?.stage !== "queued") return;
  const delta: PendingDelta = { ...next, stage: "uploading" };
  replace(draft, delta);
  draft.effects.push({ type: "send", delta });
}

function hasRoom({ pending, settings }: Draft): boolean {
  const { maxQueued, maxPending = maxQueued * DEFAULT_PENDING_FACTOR } = settings;
  return pending.length < maxPending && pending.filter(({ stage }) => stage !== "sent").length < maxQueued;
}

function find(draft: Draft, sequence: number, stage: PendingDelta["stage"]): PendingDelta | undefined {
  return draft.pending.find((delta) => delta.sequence === sequence && delta.stage === stage);
}

function replace(draft: Draft, delta: PendingDelta): void {
  draft.pending = draft.pending.map((other) => (other.sequence === delta.sequence ? delta : other));
}

function emit(draft: Draft, event: string, payload: Readonly<Record<string, unknown>>): void {
  draft.effects.push({ type: "emit", event, payload });
}

function isCutOff({ stage, sha256 }: PendingDelta): boolean {
  return stage === "taking" && sha256 === undefined;
}

function requireCount(name: string, value: number): void {
  if (Number.isSafeInteger(value) && value >= 1) return;
  throw new ProtocolError("invalid_setting", `${name} is ${value}, it must be an integer from 1`);
}
