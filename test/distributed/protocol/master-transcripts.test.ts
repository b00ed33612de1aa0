// The outer loop's reducer in scripted stories. `a/7@c2` is node a's delta 7 with content c2 (c1 where nothing is said).

import type {
  Inspection,
  Ledger,
  ListedDelta,
  MasterEffect,
  MasterEvent,
  MasterState,
  MergeSettings,
} from "../../../src/distributed/protocol/index.js";
import {
  createMaster,
  EMPTY_LEDGER,
  encodeLedger,
  isDrained,
  parseLedger,
  stepMaster,
} from "../../../src/distributed/protocol/index.js";
import { options, shaOf, testTranscripts } from "./transcript.js";

testTranscripts("master-", createRunner);

const defaults: MergeSettings = {
  outerLr: 0.7,
  outerMomentum: 0.9,
  momentumWarmupRounds: 0,
  merge: "tokens",
  stalenessLimit: 4,
  stalenessDiscount: 1,
  clipFactor: null,
  quorum: 1,
  graceMs: 1000,
  keepVersions: 2,
};

function createRunner(): (line: string) => string[] {
  let state = createMaster(defaults, { outerStep: 0, ledger: EMPTY_LEDGER, norms: [] });
  const send = (event: MasterEvent): string[] => {
    const result = stepMaster(state, event);
    state = result.state;
    return result.effects.flatMap((effect) => describe(effect, state));
  };
  return (line) => {
    const [command, first = "", ...rest] = line.split(" ");
    switch (command) {
      case "new": {
        const { at = "0", ...given } = options([first, ...rest]);
        const settings = Object.fromEntries(
          Object.entries(given).map(([key, value]) => [
            key,
            key === "merge" ? value : value === "null" ? null : Number(value),
          ]),
        );
        const outerStep = at === "none" ? undefined : Number(at);
        state = createMaster({ ...defaults, ...settings }, { outerStep, ledger: EMPTY_LEDGER, norms: [] });
        return [];
      }
      // From what was published, and through its text.
      case "restart":
        state = createMaster(state.settings, {
          outerStep: state.outerStep,
          ledger: reread(state.ledger),
          norms: state.norms,
        });
        return [];
      case "list": {
        const deltas = rest.map(toListed);
        return send({ type: "listed", nowMs: Number(first), deltas });
      }
      case "good": {
        const { path, contentId } = toListed(first);
        return send({ type: "inspected", path, contentId, inspection: good(path, contentId, rest) });
      }
      case "bad": {
        const { path, contentId } = toListed(first);
        const inspection: Inspection = { ok: false, reason: rest.join(" "), sha256: undefined };
        return send({ type: "inspected", path, contentId, inspection });
      }
      case "unread": {
        const { path, contentId } = toListed(first);
        return send({ type: "inspection_failed", path, contentId, error: rest.join(" ") });
      }
      case "tick":
        return send({ type: "tick", nowMs: Number(first) });
      case "published":
        return send({
          type: "published",
          outerStep: first === "" ? state.publishing!.outerStep : Number(first),
        });
      case "told":
        return send({ type: "fates_published" });
      case "untold":
        return send({
          type: "fates_failed",
          error: rest.length === 0 ? first || "unavailable" : `${first} ${rest.join(" ")}`,
        });
      case "failed":
        return send({ type: "publish_failed", error: "conflict" });
      case "drain":
        return send({ type: "drain" });
      case "drained?":
        return [String(isDrained(state))];
      case "ledger":
        return state.ledger.entries.map(({ path, contentId, fate, outerStep, weight, reason }) =>
          `${shorten(path)}@${contentId} ${fate} v${outerStep} ${rounded(weight)} ${reason}`.trim(),
        );
      default:
        throw new Error(`unknown command ${line}`);
    }
  };
}

function toListed(word: string): ListedDelta {
  const [, nodeId, number, contentId = "c1"] = /^([a-z]+)\/(\d+)(?:@(\w+))?$/.exec(word)!;
  return {
    path: `nodes/${nodeId}/delta_${number}.safetensors`,
    nodeId: nodeId!,
    number: Number(number),
    sizeBytes: 8,
    contentId,
  };
}

function good(path: string, contentId: string, words: readonly string[]): Inspection {
  const { base = "0", tokens, norm = "1", sha } = options(words);
  return {
    ok: true,
    sha256: shaOf(sha ?? `${shorten(path)}@${contentId}`),
    baseOuterStep: Number(base),
    localStep: undefined,
    tokens: tokens === undefined ? undefined : Number(tokens),
    steps: undefined,
    norm: Number(norm),
    isZero: words.includes("zero"),
  };
}

function describe(effect: MasterEffect, { ledger }: MasterState): string[] {
  if (effect.type === "inspect") return [`inspect ${shorten(effect.delta.path)}@${effect.delta.contentId}`];
  if (effect.type === "emit") {
    const text = JSON.stringify(effect.payload, (key, value) => (key === "path" ? shorten(value) : value));
    return [`emit ${effect.event} ${text}`];
  }
  if (effect.type === "publish_fates") {
    const { outerStep, decided, ledger: next } = effect.plan;
    return [
      `publish fates in v${outerStep}`,
      ...decided.map(({ path, fate, reason }) => `  ${shorten(path)} ${fate}: ${reason}`),
      `  ledger ${ledger.entries.length} -> ${next.entries.length}`,
    ];
  }
  const {
    outerStep,
    parentOuterStep,
    deltas,
    usesPlainMean,
    lr,
    mu,
    decided,
    deletions,
    norms,
    ledger: next,
  } = effect.plan;
  return [
    `publish v${outerStep} after v${parentOuterStep} lr=${lr} mu=${rounded(mu)}${usesPlainMean ? " plain mean" : ""}`,
    ...deltas.map(({ path, weight }) => `  ${shorten(path)} x ${rounded(weight)}`),
    ...decided
      .filter(({ fate }) => fate === "stale" || fate === "rejected")
      .map(({ path, fate, reason }) => `  ${shorten(path)} ${fate}: ${reason}`),
    ...deletions.map((path) => `  delete ${shorten(path)}`),
    `  ledger ${ledger.entries.length} -> ${next.entries.length}, norms ${norms.map(rounded).join(" ")}`,
  ];
}

function reread(ledger: Ledger): Ledger {
  return parseLedger(encodeLedger(ledger));
}

function shorten(path: string): string {
  return path.replace(/^nodes\/(.*)\/delta_(.*)\.safetensors$/, "$1/$2");
}

function rounded(value: number): number {
  return Math.round(value * 1e4) / 1e4;
}
