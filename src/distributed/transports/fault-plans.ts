// Plans of faults: drawn from a seed, so that a run can be repeated, or written down call by call.

import { threefry2x32, type Words } from "../../util/rng.js";
import { type Fault, type FaultCall, type FaultKind, type FaultPlan, isFaultOf } from "./faults.js";

export interface SeededFaults {
  /** Any integer. */
  readonly seed: number;
  /** Tells plans of one seed apart: one per node. */
  readonly stream?: number | undefined;
  /** In [0, 1], of each kind among the calls that it can happen to. A kind that is not named does not happen. */
  readonly probabilities?: Readonly<Partial<Record<FaultKind, number>>> | undefined;
  /** In [0, 1]: calls that take long, half of them before they are carried out and half after that. */
  readonly delayProbability?: number | undefined;
  /** Delays are uniform up to this (default 1,000). */
  readonly maxDelayMs?: number | undefined;
  /** What `throttled` asks for (default 1,000). */
  readonly retryAfterMs?: number | undefined;
}

/** In the order in which they are tried: the first that is drawn happens. */
const KINDS: readonly FaultKind[] = [
  "unavailable",
  "throttled",
  "lost_response",
  "conflict",
  "ambiguous_committed",
  "ambiguous_not_committed",
  "truncated",
  "stale_head",
];

/** What happens to a call depends on the seed, the stream and how many calls came before it. */
export function seededFaults(settings: SeededFaults): FaultPlan {
  const { seed, stream = 0, probabilities = {}, delayProbability = 0 } = settings;
  const { maxDelayMs = 1000, retryAfterMs = 1000 } = settings;
  const key: Words = threefry2x32([seed >>> 0, Math.floor(seed / 2 ** 32) >>> 0], stream, 0);
  return ({ method, index }) => {
    const draw = (use: number) => threefry2x32(key, index, use)[0] / 2 ** 32;
    const kind = KINDS.find((one, use) => isFaultOf(method, one) && draw(use) < (probabilities[one] ?? 0));
    const isLate = draw(KINDS.length) < delayProbability;
    if (kind === undefined && !isLate) return undefined;
    const ms = Math.ceil(draw(KINDS.length + 1) * maxDelayMs);
    const isAfter = draw(KINDS.length + 2) < 0.5;
    return {
      kind,
      ...(kind === "throttled" ? { retryAfterMs } : {}),
      ...(isLate ? (isAfter ? { answerDelayMs: ms } : { delayMs: ms }) : {}),
    };
  };
}

/** `faults` are taken from the front, one for each call of their method. */
export function listedFaults(
  method: FaultCall["method"],
  faults: readonly (Fault | FaultKind | undefined)[],
): FaultPlan {
  let at = 0;
  return (call) => {
    if (call.method !== method) return undefined;
    const fault = faults[at++];
    return typeof fault === "string" ? { kind: fault } : fault;
  };
}
