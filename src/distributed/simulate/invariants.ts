// What must hold in a fleet, whatever happens to it.

export const INVARIANTS = {
  once: "no delta is in two sums, under one path or two, and no local step in two decided deltas",
  kept: "a delta that the repository took has exactly one fate in the end, and stays there until then",
  reason: "a delta is refused for a reason that is true, and counted only if there is none",
  finite: "no published value is NaN or infinite",
  order: "versions go up by one, each made from the one before, and none is replaced",
  replay: "weights and momentum of a version equal, bit for bit, those computed again from its ledger",
  weights: "each delta counts with its node's share of the tokens, its age and its length",
  files: "a publication is one commit whose files are those that its record names, by hash",
  local: "between two steps a node's weights are a version's, and its own undecided steps once each",
  reaches: "a local step that survived the last crash is in exactly one decided delta in the end",
  converge: "when all is quiet, every node has the bits of the newest version and nothing left to send",
  live: "what goes on without faults comes to an end, and nobody stops for an error of his own",
} as const;

export type InvariantName = keyof typeof INVARIANTS;

export interface Violation {
  readonly invariant: InvariantName;
  readonly atMs: number;
  readonly message: string;
}
