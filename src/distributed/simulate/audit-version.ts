// One publication as the auditor sees it: the files belong together, and the round comes out the same when it is done
// again by other means.

import type { Ledger, LedgerEntry } from "../protocol/ledger.js";
import { compareDeltaPaths } from "../wire/delta-path.js";
import type { AuditedVersion, Auditor, SentDelta } from "./auditor.js";
import { isFiniteFile, readPlainFile } from "./plain-file.js";
import { isSameBits, replayedMu, replayRound, replayWeights, type Tensors } from "./replay.js";

export interface Publication {
  readonly outerStep: number;
  readonly parentOuterStep: number | undefined;
  readonly masterTerm: number;
  readonly modelSha256: string;
  readonly lr: number | undefined;
  readonly mu: number | undefined;
  readonly isFinite: boolean;
  readonly state: Tensors;
  /** What is not floating. */
  readonly count: number | undefined;
  readonly momentum: Tensors | undefined;
  readonly ledger: Ledger;
  readonly ledgerText: string;
}

interface RecordText {
  readonly outer_step: number;
  readonly parent_outer_step?: number;
  readonly master_term: number;
  readonly model_file: string;
  readonly model_sha256: string;
  readonly momentum_file?: string;
  readonly momentum_sha256?: string;
  readonly ledger_file: string;
  readonly ledger_sha256: string;
  readonly outer_lr?: number;
  readonly outer_momentum?: number;
}

/** @throws Error when the files of the revision do not belong together. */
export function readPublication(
  read: (path: string) => Uint8Array | undefined,
  sha256: (bytes: Uint8Array) => string,
): Publication {
  const need = (path: string, hash: string): Uint8Array => {
    const bytes = read(path);
    if (bytes === undefined) throw new Error(`${path} is missing`);
    if (sha256(bytes) !== hash) throw new Error(`${path} is not what the record says`);
    return bytes;
  };
  const text = new TextDecoder();
  const record = JSON.parse(text.decode(read("global/step_count.json"))) as RecordText;
  const model = readPlainFile(need(record.model_file, record.model_sha256));
  need("global/latest.safetensors", record.model_sha256);
  const momentum =
    record.momentum_file === undefined
      ? undefined
      : readPlainFile(need(record.momentum_file, record.momentum_sha256 ?? ""));
  const ledgerText = text.decode(need(record.ledger_file, record.ledger_sha256));
  return {
    outerStep: record.outer_step,
    parentOuterStep: record.parent_outer_step,
    masterTerm: record.master_term,
    modelSha256: record.model_sha256,
    lr: record.outer_lr,
    mu: record.outer_momentum,
    isFinite: isFiniteFile(model) && (momentum === undefined || isFiniteFile(momentum)),
    state: model.floats,
    count: model.integers.get("count")?.[0],
    momentum: momentum?.floats,
    ledger: readLedger(ledgerText),
    ledgerText,
  };
}

function readLedger(text: string): Ledger {
  const { entries } = JSON.parse(text) as { readonly entries: readonly Record<string, unknown>[] };
  return {
    entries: entries.map(
      (entry) =>
        ({
          path: entry.path,
          nodeId: entry.node_id,
          sha256: entry.sha256,
          contentId: entry.content_id,
          fate: entry.fate,
          outerStep: entry.outer_step,
          weight: entry.weight,
          reason: entry.reason,
        }) as LedgerEntry,
    ),
  };
}

/** Compares the version with what its ledger makes of the one before. */
export function auditRound(
  auditor: Auditor,
  previous: AuditedVersion,
  publication: Publication,
): AuditedVersion {
  const { violate, settings } = auditor.options;
  const { outerStep, lr, mu } = publication;
  if (!publication.isFinite) violate("finite", `version ${outerStep} has values that are not finite`);
  if (publication.count !== previous.publication.count)
    violate("replay", `version ${outerStep} changed a buffer that takes no part in training`);
  const expectedMu = replayedMu(outerStep, settings);
  if (lr !== settings.outerLr || mu === undefined || Math.abs(mu - expectedMu) > 1e-12)
    violate(
      "replay",
      `version ${outerStep} says lr ${lr} and momentum ${mu}, not ${settings.outerLr} and ${expectedMu}`,
    );
  const used = usedDeltas(auditor, publication);
  const ages = used.map(({ delta, entry }) => ({
    ...delta,
    age: entry.outerStep - 1 - delta.base,
  }));
  const { weights, norms } = replayWeights(ages, previous.norms, settings);
  for (const [i, { entry }] of used.entries()) {
    const expected = weights[i]!;
    if (Math.abs(entry.weight - expected) <= 1e-9 * Math.abs(expected)) continue;
    violate("weights", `${entry.path} has weight ${entry.weight} in ${outerStep}, not ${expected}`);
  }
  if (used.length === 0) violate("replay", `version ${outerStep} adds up nothing`);
  const parts = used.map(({ delta, entry }) => ({ floats: delta.file.floats, weight: entry.weight }));
  const replayed = replayRound(previous.state, previous.momentum, parts, {
    lr: settings.outerLr,
    mu: mu ?? expectedMu,
  });
  if (!isSameBits(publication.state, replayed.state))
    violate("replay", `the weights of version ${outerStep} are not those of its ledger`);
  else if (publication.momentum === undefined || !isSameBits(publication.momentum, replayed.momentum))
    violate("replay", `the momentum of version ${outerStep} is not that of its ledger`);
  return { publication, ...replayed, norms };
}

/** In the order of the sum. */
function usedDeltas(
  auditor: Auditor,
  { ledger, outerStep }: Publication,
): { readonly delta: SentDelta; readonly entry: LedgerEntry }[] {
  const found: { readonly delta: SentDelta; readonly entry: LedgerEntry }[] = [];
  for (const entry of ledger.entries) {
    if (entry.outerStep !== outerStep || entry.weight === 0) continue;
    const delta = auditor.sent.get(`${entry.path}\n${entry.sha256 ?? ""}`);
    if (delta !== undefined) found.push({ delta, entry });
  }
  const asPath = ({ path, nodeId, number }: SentDelta) =>
    ({ kind: "delta", path, nodeId, localStep: number }) as const;
  return found.sort((a, b) => compareDeltaPaths(asPath(a.delta), asPath(b.delta)));
}
