// What can go wrong in a simulated fleet, and how often. Names are those of `speedtronic simulate --faults`.

import { ConfigError } from "../../util/errors.js";
import type { RandomStream } from "./random.js";

/** Every fault, with what it does. */
export const FAULTS = {
  delay: "some requests and answers take up to half a minute",
  reorder:
    "latencies differ, so that requests overtake each other; some commits arrive after the caller gave up",
  conflict: "412 and 409: the head moves, or another commit is in progress",
  throttled: "429 with a time to come back",
  ambiguous: "500, whether the commit was made or not",
  truncated: "reads that end early",
  lost: "requests and answers that never arrive",
  skew: "clocks that are wrong, fast or slow",
  "worker-crash": "workers die at any moment and go on from checkpoint and outbox, or from the outbox alone",
  "master-crash": "the master dies and goes on from the repository; sometimes the old one wakes up again",
  "nan-peer": "a peer whose deltas have NaN and infinity",
  "huge-peer": "a peer whose deltas are 1000 times too large",
  "stale-peer": "a peer whose deltas have old bases",
} as const;

export type FaultName = keyof typeof FAULTS;

export const FAULT_NAMES = Object.keys(FAULTS) as readonly FaultName[];

/** `all`, `none`, or names with commas. @throws ConfigError `simulate.unknown_fault`. */
export function parseFaults(text: string): readonly FaultName[] {
  if (text === "all") return FAULT_NAMES;
  if (text === "none") return [];
  const names = text.split(",").map((name) => name.trim());
  for (const name of names) {
    if (Object.hasOwn(FAULTS, name)) continue;
    throw new ConfigError(
      `there is no fault "${name.slice(0, 60)}"; take all, none, or some of ${FAULT_NAMES.join(", ")}`,
      { code: "simulate.unknown_fault", details: { fault: name } },
    );
  }
  return FAULT_NAMES.filter((name) => names.includes(name));
}

export type CallKind = "create" | "head" | "list" | "read" | "open" | "piece" | "commit";

/** What happens to one request. */
export interface CallPlan {
  readonly requestMs: number;
  readonly answerMs: number;
  /** The caller gives up after so long; the request arrives all the same. */
  readonly patienceMs: number | undefined;
  readonly trouble: CallTrouble | undefined;
  /** Whether it arrives if its sender dies while it is under way. */
  readonly outlivesSender: boolean;
}

export type CallTrouble =
  | "throttled"
  /** Commits: somebody else's commit comes in between. */
  | "overtaken"
  /** Commits: refused without a newer head. */
  | "busy"
  | "failed-before"
  | "failed-after"
  | "lost-request"
  | "lost-answer"
  | "truncated";

/** The share of calls that each fault spoils. */
const RATES = {
  delay: 0.015,
  throttled: 0.02,
  overtaken: 0.05,
  busy: 0.03,
  failed: 0.06,
  truncated: 0.02,
  lost: 0.015,
  late: 0.03,
} as const;

const COMMIT_TIMEOUT_MS = 20_000;

export class FaultInjector {
  readonly counts = new Map<string, number>();
  #active: ReadonlySet<FaultName>;
  /** Each run is more or less unlucky. */
  readonly #luck: number;

  constructor(faults: readonly FaultName[], random: RandomStream) {
    this.#active = new Set(faults);
    this.#luck = random.between(0.3, 1.7);
  }

  has(name: FaultName): boolean {
    return this.#active.has(name);
  }

  /** From now on everything works. */
  stop(): void {
    this.#active = new Set();
  }

  count(what: string): void {
    this.counts.set(what, (this.counts.get(what) ?? 0) + 1);
  }

  plan(kind: CallKind, random: RandomStream): CallPlan {
    const happens = (name: FaultName, rate: number) => this.has(name) && random.chance(rate * this.#luck);
    const jitter = () => (this.has("reorder") ? random.between(5, 400) : 40);
    const slow = () =>
      happens("delay", RATES.delay) ? this.#counted("delay", random.between(1000, 30_000)) : 0;
    const isLate = kind === "commit" && happens("reorder", RATES.late);
    return {
      requestMs: jitter() + slow() + (isLate ? COMMIT_TIMEOUT_MS : 0),
      answerMs: jitter() + slow(),
      patienceMs: isLate ? this.#counted("late commit", random.between(1, COMMIT_TIMEOUT_MS)) : undefined,
      trouble: this.#trouble(kind, random, happens),
      outlivesSender: random.chance(0.6),
    };
  }

  #trouble(
    kind: CallKind,
    random: RandomStream,
    happens: (name: FaultName, rate: number) => boolean,
  ): CallTrouble | undefined {
    const isCommit = kind === "commit";
    const isRead = kind === "read" || kind === "piece" || kind === "list";
    if (happens("throttled", RATES.throttled)) return this.#counted("throttled", "throttled");
    if (isCommit && happens("conflict", RATES.overtaken)) return this.#counted("conflict", "overtaken");
    if (isCommit && happens("conflict", RATES.busy)) return this.#counted("conflict", "busy");
    if (isCommit && happens("ambiguous", RATES.failed))
      return this.#counted("ambiguous", random.chance(0.6) ? "failed-after" : "failed-before");
    if (isRead && happens("truncated", RATES.truncated)) return this.#counted("truncated", "truncated");
    if (happens("lost", RATES.lost))
      return this.#counted("lost", random.chance(0.5) ? "lost-answer" : "lost-request");
    return undefined;
  }

  #counted<T>(what: string, value: T): T {
    this.count(what);
    return value;
  }
}
