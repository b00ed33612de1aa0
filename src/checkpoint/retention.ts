// Which checkpoints may go once a new one is verified. A pure decision over manifests: it deletes nothing itself.

import { ConfigError } from "../util/errors.js";

/** What stays of one run. Each rule keeps by itself; what none keeps may go. */
export interface RetentionPolicy {
  /** The newest, by order of saving; null keeps all. */
  readonly keepLast: number | null;
  /** The ones of lowest validation loss, among those saved at a step that was validated. */
  readonly keepBest?: number;
  /** All whose step is a multiple of this, for good; null: none. */
  readonly keepEvery?: number | null;
}

/** What the decision needs to know of a checkpoint. */
interface Retained {
  readonly name: string;
  readonly runId: string;
  readonly step: number;
  readonly sequence: number;
  readonly validationLoss: number | null;
}

interface RetentionRule extends RetentionPolicy {
  readonly runId: string;
  /** Folder that the pointer names. */
  readonly pointedTo: string;
  /** Folders known to be damaged: they do not count as kept generations. */
  readonly damaged: ReadonlySet<string>;
}

/** @throws ConfigError naming the key of the configuration. */
export function checkRetention({ keepLast, keepBest = 0, keepEvery = null }: RetentionPolicy): void {
  const require = (key: string, value: number | null, from: number) => {
    if (value === null || (Number.isSafeInteger(value) && value >= from)) return;
    throw new ConfigError(
      `checkpoint.${key} is ${value}; it must be a whole number from ${from} on, or null`,
      {
        code: "config.invalid_value",
        details: { key: `checkpoint.${key}`, value },
      },
    );
  };
  require("keep_last", keepLast, 1);
  require("keep_best", keepBest, 0);
  require("keep_every", keepEvery, 1);
}

/**
 * Names of the checkpoints to remove, oldest first. Only those of the run itself, by order of saving (a run that
 * went back to an early step keeps its new checkpoints, not the higher steps of the branch it left), and a step
 * that the run has saved again counts once. Never the pointed-to one.
 */
export function selectForRemoval(checkpoints: readonly Retained[], rule: RetentionRule): string[] {
  const newestFirst = checkpoints
    .filter((checkpoint) => checkpoint.runId === rule.runId)
    .sort((a, b) => b.sequence - a.sequence);
  const isDamaged = ({ name }: Retained) => rule.damaged.has(name);
  const latestOfStep = new Map<number, Retained>();
  for (const checkpoint of newestFirst)
    if (!isDamaged(checkpoint) && !latestOfStep.has(checkpoint.step))
      latestOfStep.set(checkpoint.step, checkpoint);
  const intact = [...latestOfStep.values()];

  const kept = new Set<Retained>([
    ...intact.slice(0, rule.keepLast ?? intact.length),
    ...bestOf(intact).slice(0, rule.keepBest ?? 0),
    ...intact.filter(({ step }) => rule.keepEvery != null && step > 0 && step % rule.keepEvery === 0),
  ]);
  const isFull = rule.keepLast !== null && intact.length >= rule.keepLast;
  const oldestNew = isFull ? intact[rule.keepLast - 1]!.sequence : 0;
  const isKept = (checkpoint: Retained) => {
    if (checkpoint.name === rule.pointedTo || kept.has(checkpoint)) return true;
    // No generation, but among the newest a person may still want to look at it.
    return isDamaged(checkpoint) && checkpoint.sequence > oldestNew && !latestOfStep.has(checkpoint.step);
  };
  return newestFirst
    .filter((checkpoint) => !isKept(checkpoint))
    .map(({ name }) => name)
    .reverse();
}

/** Lowest loss first; of equal ones the newer. */
function bestOf(newestFirst: readonly Retained[]): Retained[] {
  const isUsable = (loss: number | null): loss is number => loss !== null && Number.isFinite(loss);
  return newestFirst
    .filter(({ validationLoss }) => isUsable(validationLoss))
    .sort((a, b) => a.validationLoss! - b.validationLoss! || b.sequence - a.sequence);
}
