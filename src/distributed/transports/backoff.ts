// How long to wait before the same is tried again: after failures, and after a lost race for the head. The one rule of
// nodes, aggregators and connectors; whether something is worth another try is decided where it is tried.

export interface BackoffSettings {
  readonly initialMs: number;
  readonly maxMs: number;
}

/**
 * The wait before the next try after `failures` failures in a row: doubled each time up to the maximum, between half
 * and all of it at random (so that many nodes do not come back together), and never less than what the other side asks.
 */
export function backoffMs(
  failures: number,
  { initialMs, maxMs }: BackoffSettings,
  random: () => number,
  askedMs = 0,
): number {
  const full = Math.min(maxMs, initialMs * 2 ** Math.min(failures - 1, 30));
  return Math.max(askedMs, full * (0.5 + random() / 2));
}

/** Longest wait after one lost race for the head; it grows by as much with each, up to the first back-off. */
const RACE_MS = 100;

/**
 * The wait after `lost` lost races for the head in a row. Nothing is overloaded: others were faster, so that this is
 * about not meeting them again, and a node that doubled its wait would never get in between busy ones.
 */
export function raceMs(lost: number, { initialMs }: BackoffSettings, random: () => number): number {
  return Math.min(initialMs, RACE_MS * lost) * random();
}
