// Which checkpoints may go once a new one is verified. A pure decision over manifests: it deletes nothing itself.

/** What the decision needs to know of a checkpoint. */
interface Retained {
  readonly name: string;
  readonly runId: string;
  readonly step: number;
  readonly sequence: number;
}

interface RetentionRule {
  readonly runId: string;
  /** How many checkpoints of the run stay; null keeps all. */
  readonly keepLast: number | null;
  /** Folder that the pointer names. */
  readonly pointedTo: string;
  /** Folders known to be damaged: they do not count as kept generations. */
  readonly damaged: ReadonlySet<string>;
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
  const keptSteps = new Set<number>();
  const removed: string[] = [];
  for (const { name, step } of newestFirst) {
    const isSpare = keptSteps.has(step) || keptSteps.size >= (rule.keepLast ?? Number.POSITIVE_INFINITY);
    if (isSpare && name !== rule.pointedTo) removed.push(name);
    else if (!rule.damaged.has(name)) keptSteps.add(step);
  }
  return removed.reverse();
}
