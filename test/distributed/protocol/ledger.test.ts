// The ledger: found by content, forgotten with care, one text for one ledger.

import { describe, expect, test } from "vitest";
import {
  appendEntries,
  compactLedger,
  createMaster,
  createWorker,
  EMPTY_LEDGER,
  encodeLedger,
  findApplied,
  findByContentId,
  findBySha256,
  isLongDecided,
  type Ledger,
  type LedgerEntry,
  type MergeSettings,
  ORDERED_FROM,
  ProtocolError,
  parseLedger,
  pathNumber,
  stepMaster,
  stepWorker,
  type WorkerEvent,
  type WorkerState,
} from "../../../src/distributed/protocol/index.js";
import { shaOf } from "./transcript.js";

function entry(
  nodeId: string,
  number: number,
  outerStep: number,
  more: Partial<LedgerEntry> = {},
): LedgerEntry {
  const path = `nodes/${nodeId}/delta_${number}.safetensors`;
  const content = { sha256: shaOf(path), contentId: `id-${nodeId}-${number}` };
  return { path, nodeId, ...content, fate: "applied", outerStep, weight: 0.5, reason: "", ...more };
}

const number = (sequence: number) => pathNumber(sequence, "a/salt");
const listed = (...entries: LedgerEntry[]) =>
  new Map(entries.map(({ path, contentId }) => [path, contentId]));
const settings: MergeSettings = {
  outerLr: 1,
  outerMomentum: 0,
  momentumWarmupRounds: 0,
  merge: "tokens",
  stalenessLimit: 4,
  stalenessDiscount: 1,
  clipFactor: null,
  quorum: 1,
  graceMs: 0,
  keepVersions: 2,
};

test("L-18 entries are found by path and content, never by path alone", () => {
  const one = entry("a", 7, 1);
  const refused = entry("a", 8, 1, { fate: "rejected", weight: 0, reason: "empty" });
  const ledger = appendEntries(EMPTY_LEDGER, [one, refused]);
  expect(findBySha256(ledger, one.path, one.sha256!)).toBe(one);
  expect(findBySha256(ledger, one.path, shaOf("other"))).toBeUndefined();
  expect(findBySha256(ledger, refused.path, one.sha256!)).toBeUndefined();
  expect(findByContentId(ledger, one.path, one.contentId)).toBe(one);
  expect(findByContentId(ledger, one.path, "other")).toBeUndefined();
  expect(findApplied(ledger, one.sha256!)).toBe(one);
  expect(findApplied(ledger, refused.sha256!)).toBeUndefined();
});

test("a later entry for the same file takes the place of the earlier one", () => {
  const old = entry("a", 7, 1);
  const other = entry("b", 7, 1);
  const next = { ...old, outerStep: 2 };
  expect(appendEntries({ entries: [old, other] }, [next]).entries).toEqual([other, next]);
});

describe("compaction", () => {
  test("L-15 forgets only what is old and whose file is gone", () => {
    const old = entry("a", number(1), 1);
    const there = entry("a", number(2), 1);
    const replaced = entry("a", number(3), 1);
    const young = entry("a", number(4), 3);
    const ledger = { entries: [old, there, replaced, young] };
    const files = listed(there, { ...replaced, contentId: "new" });
    // The replaced file is undecided, and nothing at or above its number may be covered.
    const compact = compactLedger(ledger, { upTo: 2, listed: files });
    expect(compact.entries).toEqual([there, replaced, young]);
    expect(isLongDecided(compact, "a", number(1))).toBe(true);
    expect(isLongDecided(compact, "a", number(2))).toBe(false);
  });

  test("L-16 a number stays behind, for the same life of the node only", () => {
    const ledger = {
      entries: [entry("a", number(1), 1), entry("a", number(2), 2), entry("b", number(9), 9)],
    };
    const compact = compactLedger(ledger, { upTo: 2, listed: new Map() });
    expect(compact.entries).toHaveLength(1);
    expect(isLongDecided(compact, "a", number(2))).toBe(true);
    expect(isLongDecided(compact, "a", number(3))).toBe(false);
    expect(isLongDecided(compact, "b", number(1))).toBe(false);
    expect(isLongDecided(compact, "a", pathNumber(1, "a/another salt"))).toBe(false);
    // It only grows.
    const again = compactLedger(compact, { upTo: 99, listed: new Map() });
    expect(again).toEqual({ entries: [], decidedUpTo: { ...compact.decidedUpTo, ...again.decidedUpTo } });
    expect(isLongDecided(again, "a", number(2))).toBe(true);
  });

  test("a delta that waits for its round keeps younger entries of its node", () => {
    const waiting = entry("a", number(1), 0);
    const later = entry("a", number(2), 1);
    const ledger = { entries: [later] };
    expect(compactLedger(ledger, { upTo: 5, listed: listed(waiting) })).toEqual(ledger);
  });

  test("L-44 nothing is left of Python's numbers, which start again", () => {
    const compact = compactLedger({ entries: [entry("py", 500, 1)] }, { upTo: 1, listed: new Map() });
    expect(compact).toEqual({ entries: [] });
    expect(isLongDecided(compact, "py", 500)).toBe(false);
  });
});

describe("L-16 a delta uploaded again long after it was decided", () => {
  const ledger = compactLedger({ entries: [entry("a", number(5), 1)] }, { upTo: 1, listed: new Map() });

  test("is not counted by the master, and never read", () => {
    const { path, contentId } = entry("a", number(5), 1);
    const delta = { path, nodeId: "a", number: number(5), sizeBytes: 1, contentId };
    const master = createMaster(settings, { outerStep: 9, ledger, norms: [] });
    const { state, effects } = stepMaster(master, { type: "listed", nowMs: 0, deltas: [delta] });
    expect(effects.map(({ type }) => type)).toEqual(["emit"]);
    expect(state.publishing).toBeUndefined();
    const fresh = { ...delta, path: entry("a", number(6), 1).path, number: number(6) };
    expect(stepMaster(state, { type: "listed", nowMs: 0, deltas: [delta, fresh] }).effects).toEqual([
      { type: "inspect", delta: fresh },
    ]);
  });

  test("is forgotten by its node, since the version contains it", () => {
    let state: WorkerState = createWorker({ nodeId: "a", innerSteps: 1, maxQueued: 1, salt: "salt" });
    const run = (...events: WorkerEvent[]) =>
      events.flatMap((event) => {
        const step = stepWorker(state, event);
        state = step.state;
        return step.effects;
      });
    const version = (outerStep: number, known: Ledger) => ({
      outerStep,
      revision: "r",
      modelFile: "global/m.safetensors",
      modelSha256: undefined,
      ledger: known,
    });
    run(
      { type: "seen", version: version(0, EMPTY_LEDGER) },
      { type: "fetched", outerStep: 0 },
      { type: "idle" },
    );
    run({ type: "step", step: 1, tokens: 1 });
    run({ type: "taken", sequence: 1, sha256: shaOf("x"), isZero: false, isFinite: true });
    run({ type: "seen", version: version(300, ledger) }, { type: "fetched", outerStep: 300 });
    const types = run({ type: "idle" }).map(({ type }) => type);
    expect(types).toEqual(["install", "emit", "forget", "emit"]);
    expect(state.pending).toEqual([]);
  });
});

describe("text", () => {
  const ledger: Ledger = {
    entries: [
      entry("é b", 3, 1),
      entry("a", number(1), 2, { fate: "merged", weight: 1 / 3 }),
      entry("a", number(2), 2, { fate: "rejected", weight: 0, sha256: null, reason: 'no "header"\n' }),
    ],
    decidedUpTo: { "b/2": 7 * ORDERED_FROM + 2, "a/1": 1 },
  };

  test("comes back, from one text for one ledger", () => {
    const text = encodeLedger(ledger);
    expect(parseLedger(text)).toEqual(ledger);
    expect(parseLedger(new TextEncoder().encode(text))).toEqual(ledger);
    expect(encodeLedger(parseLedger(text))).toBe(text);
    expect(text.split("\n")).toHaveLength(8);
    expect(encodeLedger({ ...ledger, decidedUpTo: { "a/1": 1, "b/2": 7 * ORDERED_FROM + 2 } })).toBe(text);
    expect(parseLedger(encodeLedger(EMPTY_LEDGER))).toEqual(EMPTY_LEDGER);
  });

  const line = JSON.parse(encodeLedger({ entries: [entry("a", 1, 1)] })) as {
    entries: [Record<string, unknown>];
  };
  const withEntry = (more: Record<string, unknown>) =>
    JSON.stringify({ ...line, entries: [{ ...line.entries[0], ...more }] });
  test.each([
    ["{", "is not JSON"],
    ["[]", "must be a JSON object"],
    [JSON.stringify({ ...line, format: 2 }), "format is 2, this program reads 1"],
    [JSON.stringify({ ...line, entries: {} }), "entries must be a list"],
    [JSON.stringify({ ...line, entries: [...line.entries, ...line.entries] }), "stands twice"],
    [JSON.stringify({ ...line, decided_up_to: [] }), "decided_up_to must be an object"],
    [JSON.stringify({ ...line, decided_up_to: { "a/1": -1 } }), "no integer from 0"],
    [withEntry({ path: "nodes/a/delta_01.safetensors" }), "is no path of a delta"],
    [withEntry({ path: "global/latest.safetensors" }), "is no path of a delta"],
    [withEntry({ node_id: "b" }), 'node_id is "b", the path says "a"'],
    [withEntry({ sha256: "AB" }), "neither null nor 64"],
    [withEntry({ sha256: null }), "sha256 is null, but the delta is applied"],
    [withEntry({ content_id: "" }), "content_id must be a text"],
    [withEntry({ fate: "lost" }), 'fate is "lost"'],
    [withEntry({ outer_step: 1.5 }), "outer_step is 1.5"],
    [withEntry({ weight: "1" }), 'weight is "1"'],
    [withEntry({ fate: "stale" }), "weight is 0.5, but the delta is stale"],
    [withEntry({ reason: 1 }), "reason must be a text"],
  ])("is refused when it is not ours: %s", (text, message) => {
    const error = catchError(() => parseLedger(text, "global/x.json"));
    expect(error).toBeInstanceOf(ProtocolError);
    expect(error).toMatchObject({ code: "protocol.invalid_ledger", exitCode: 6, file: "global/x.json" });
    expect((error as Error).message).toContain(message);
  });
});

function catchError(run: () => unknown): unknown {
  try {
    run();
  } catch (error) {
    return error;
  }
  return undefined;
}
