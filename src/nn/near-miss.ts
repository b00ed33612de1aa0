// "Did you mean …?": the known name closest to a mistyped one. Plain string work.

/** The entry of `known` within a third of its length in edits of `name` (at least one edit), or undefined. */
export function nearMiss(name: string, known: Iterable<string>): string | undefined {
  let best: string | undefined;
  let bestEdits = Number.POSITIVE_INFINITY;
  for (const candidate of known) {
    const edits = editDistance(name.toLowerCase(), candidate.toLowerCase());
    if (edits < bestEdits && edits <= Math.max(1, Math.floor(candidate.length / 3))) {
      best = candidate;
      bestEdits = edits;
    }
  }
  return best;
}

/** ` (did you mean "x"?)`, or nothing. */
export function suggestion(name: string, known: Iterable<string>): string {
  const near = nearMiss(name, known);
  return near === undefined ? "" : ` (did you mean "${near}"?)`;
}

/** Levenshtein distance: insertions, deletions and replacements. */
function editDistance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      const replaced = row[j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1);
      next.push(Math.min(replaced, row[j]! + 1, next[j - 1]! + 1));
    }
    row = next;
  }
  return row[b.length]!;
}
