// Whether the documents of a run tell one story: version record, history and ledger.

import { isInSum, type Ledger } from "../protocol/ledger.js";
import { LEDGER_VERSIONS } from "../protocol/round.js";
import { LATEST_MODEL_FILE } from "../wire/model-file.js";
import type { History, PublishedVersion } from "./aggregator-history.js";
import type { RunHead } from "./aggregator-repository.js";
import type { VerifyFiles } from "./run-verify-files.js";

/** What the record says against what the history says of the same version, and the copy of the newest weights. */
export function headDifferences(
  { record, facts }: RunHead,
  { versions }: History,
  files: VerifyFiles,
): string[] {
  const found: string[] = [];
  const newest = versions.at(-1);
  const compare = (what: string, inRecord: unknown, inHistory: unknown) => {
    if (inRecord !== inHistory)
      found.push(`${what} is ${shown(inRecord)} in the version record, ${shown(inHistory)} in the history`);
  };
  if (newest !== undefined) {
    compare("outer_step", record.outerStep, newest.outerStep);
    if (record.outerStep === newest.outerStep) {
      compare("model_file", record.modelFile, newest.modelFile);
      compare("model_sha256", facts.modelSha256, newest.modelSha256);
      if (newest.parentOuterStep !== undefined) {
        compare("parent_outer_step", facts.parentOuterStep, newest.parentOuterStep);
        compare("momentum_sha256", facts.momentumSha256, newest.momentumSha256);
        compare("outer_lr", facts.outerLr, newest.lr);
        compare("outer_momentum", facts.outerMomentum, newest.mu);
      }
    }
  }
  const [latest, named] = [files.entry(LATEST_MODEL_FILE), files.entry(record.modelFile)];
  if (named === undefined) found.push(`${record.modelFile}, the weights of the newest version, is missing`);
  else if (latest === undefined) found.push(`${LATEST_MODEL_FILE} is missing`);
  else if (latest.contentId !== named.contentId)
    found.push(`${LATEST_MODEL_FILE} is not the newest version's ${record.modelFile}`);
  return found;
}

/** The ledger must tell the same story: these deltas, with these weights, and no others. */
export function ledgerDifferences(
  version: PublishedVersion,
  ledger: Ledger | undefined,
  { record }: RunHead,
): string[] {
  if (ledger === undefined || version.parentOuterStep === undefined) return [];
  const { outerStep } = version;
  const found: string[] = [];
  const counted = ledger.entries.filter((entry) => isInSum(entry) && entry.outerStep === outerStep);
  const keyOf = ({ path, sha256 }: { readonly path: string; readonly sha256: string | null }) =>
    `${path}\n${sha256}`;
  const entries = new Map(counted.map((entry) => [keyOf(entry), entry]));
  // Entries of files that are gone are kept for so many versions.
  const isComplete = outerStep > record.outerStep - LEDGER_VERSIONS;
  for (const delta of version.deltas) {
    const entry = entries.get(keyOf(delta));
    entries.delete(keyOf(delta));
    if (entry === undefined) {
      if (isComplete) found.push(`${delta.path} is in its round, but the ledger does not say so`);
    } else if (entry.weight !== delta.weight) {
      found.push(
        `${delta.path} has the weight ${delta.weight} in the history, ${entry.weight} in the ledger`,
      );
    }
  }
  for (const { path } of entries.values())
    found.push(`the ledger counts ${path} in it, the history does not`);
  return found;
}

function shown(value: unknown): string {
  return value === undefined ? "missing" : JSON.stringify(value).slice(0, 100);
}
