// Which delta has which progress. What a node learns between two snapshots is one progress, numbered over all its lives;
// a checkpoint names the one that its weights have. So a restart can tell whether it is in a delta already, whatever
// lives came in between, from whatever checkpoints.

export interface ProgressBook {
  /** Number of the progress that is in the weights and in no delta. */
  readonly current: number;
  /** By number, ascending, the newest ones: the sequence of the delta that has it; null where none has. */
  readonly takenIn: readonly (readonly [number: number, sequence: number | null])[];
}

/** An old checkpoint outlives its baseline by far less. */
const KEPT_NUMBERS = 64;

/** The weights are the baseline from now on: another progress begins. That of before may be continued later. */
export function beginProgress(book: ProgressBook | undefined): ProgressBook {
  const takenIn = book?.takenIn ?? [];
  return continueProgress({ current: 0, takenIn }, (takenIn.at(-1)?.[0] ?? 0) + 1);
}

/** The weights and the baseline are those of a checkpoint with this progress. */
export function continueProgress({ takenIn }: ProgressBook, number: number): ProgressBook {
  const others = takenIn.filter(([other]) => other !== number);
  const all = [...others, [number, null] as const].sort(([a], [b]) => a - b);
  return { current: number, takenIn: all.slice(-KEPT_NUMBERS) };
}

/** The delta of this sequence has the current progress; another one begins. */
export function takeProgress({ current, takenIn }: ProgressBook, sequence: number): ProgressBook {
  return beginProgress({
    current,
    takenIn: takenIn.map((entry) => (entry[0] === current ? [current, sequence] : entry)),
  });
}

/** The sequence of the delta that has this progress; "open" if none has, "unknown" for one of long ago. */
export function findProgress({ takenIn }: ProgressBook, number: number): number | "open" | "unknown" {
  const entry = takenIn.find(([other]) => other === number);
  if (entry !== undefined) return entry[1] ?? "open";
  // The last words of a life did not reach the disk: nothing that it took afterwards did.
  return number > (takenIn.at(-1)?.[0] ?? 0) ? "open" : "unknown";
}
