// The training node's reducer in scripted stories. `#n` is the node's n-th delta.

import type {
  Fate,
  LedgerEntry,
  SeenVersion,
  WorkerEffect,
  WorkerEvent,
  WorkerState,
} from "../../../src/distributed/protocol/index.js";
import { createWorker, pathNumber, stepWorker } from "../../../src/distributed/protocol/index.js";
import { options, shaOf, testTranscripts } from "./transcript.js";

testTranscripts("worker-", createRunner);

const pathOf = (sequence: number) => `nodes/a/delta_${pathNumber(sequence, "a/")}.safetensors`;

function createRunner(): (line: string) => string[] {
  let state: WorkerState | undefined;
  const send = (event: WorkerEvent): string[] => {
    const result = stepWorker(state!, event);
    state = result.state;
    return result.effects.map(describe);
  };
  return (line) => {
    const [command, first = "", ...rest] = line.split(" ");
    switch (command) {
      case "new": {
        const { inner = "3", queue = "2", pending } = options([first, ...rest]);
        const limits = pending === undefined ? {} : { maxPending: Number(pending) };
        state = createWorker({ nodeId: "a", innerSteps: Number(inner), maxQueued: Number(queue), ...limits });
        return [];
      }
      case "restart":
        state = createWorker(state!.settings, JSON.parse(JSON.stringify(state)));
        return [];
      case "state":
        return [describeState(state!)];
      case "step": {
        const out: string[] = [];
        for (let i = 0; i < Number(first || 1); i++)
          out.push(...send({ type: "step", step: state!.localStep + 1, tokens: 10 }));
        return out;
      }
      case "seen":
        return send({ type: "seen", version: version(Number(first), rest) });
      case "fetched":
        return send({ type: "fetched", outerStep: Number(first) });
      case "fetch_failed":
        return send({
          type: "fetch_failed",
          outerStep: Number(first),
          error: "gone",
          isPermanent: rest[0] === "permanent",
        });
      case "taken":
        return send({
          type: "taken",
          sequence: Number(first),
          sha256: shaOf(first),
          isZero: rest[0] === "zero",
          isFinite: rest[0] !== "nan",
        });
      case "sent":
        return send({ type: "sent", sequence: Number(first) });
      case "send_failed":
        return send({
          type: "send_failed",
          sequence: Number(first),
          error: "no answer",
          isPermanent: rest[0] === "permanent",
        });
      case "stop":
      case "idle":
      case "retry":
      case "absent":
        return send({ type: command });
      default:
        throw new Error(`unknown command ${line}`);
    }
  };
}

/** `none`: no ledger. Else words such as `1:applied`, `2:stale`, `3!applied` (the path with other content). */
function version(outerStep: number, words: readonly string[]): SeenVersion {
  const entries = words
    .filter((word) => word !== "none")
    .map((word): LedgerEntry => {
      const [, sequence, mark, fate] = /^(\d+)([:!?])(\w+)$/.exec(word)!;
      const isInSum = fate === "applied" || fate === "merged";
      return {
        path: pathOf(Number(sequence)),
        nodeId: "a",
        sha256: mark === "?" ? null : shaOf(mark === "!" ? "other" : sequence!),
        contentId: word,
        fate: fate as Fate,
        outerStep,
        weight: isInSum ? 1 : 0,
        reason: isInSum ? "" : "why",
      };
    });
  return {
    outerStep,
    revision: `r${outerStep}`,
    modelFile: `global/model-${outerStep}.safetensors`,
    modelSha256: undefined,
    ledger: words.includes("none") ? undefined : { entries },
  };
}

function describe(effect: WorkerEffect): string {
  switch (effect.type) {
    case "snapshot": {
      const { sequence, baseOuterStep, localStep, steps, tokens } = effect.delta;
      return `snapshot #${sequence} base=${baseOuterStep} step=${localStep} steps=${steps} tokens=${tokens}`;
    }
    case "send":
    case "forget":
      return `${effect.type} #${effect.delta.sequence}`;
    case "fetch":
      return `fetch v${effect.version.outerStep}`;
    case "install":
      return `install v${effect.version.outerStep} keep=[${effect.keep.map(({ sequence }) => `#${sequence}`).join(" ")}]`;
    case "emit":
      return `emit ${effect.event} ${JSON.stringify(effect.payload, (key, value) => (key === "path" ? named(value) : value))}`;
  }
}

function named(path: string): string {
  const sequence = [1, 2, 3, 4, 5, 6, 7, 8, 9].find((candidate) => pathOf(candidate) === path);
  return sequence === undefined ? path : `#${sequence}`;
}

function describeState({
  installed,
  pending,
  stepsSinceSnapshot,
  tokensSinceSnapshot,
  nextSequence,
}: WorkerState): string {
  const list = pending.map(({ sequence, stage }) => `#${sequence} ${stage}`).join(", ");
  const progress = `progress=${stepsSinceSnapshot} steps, ${tokensSinceSnapshot} tokens`;
  return `installed=${installed ?? "none"} pending=[${list}] ${progress} next=#${nextSequence}`;
}
