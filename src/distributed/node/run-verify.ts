// Is a run what its repository says it is? Computes every version again whose parent, momentum and deltas are still
// there, with the weights, rate and momentum that were published beside it, and compares hashes. Trusts nothing but the
// newest version record; changes nothing.

import { ProtocolError } from "../protocol/errors.js";
import type { Ledger } from "../protocol/ledger.js";
import type { Transport } from "../transports/contract.js";
import { WireError } from "../wire/errors.js";
import { AggregatorError } from "./aggregator-errors.js";
import { EMPTY_HISTORY, type History, type PublishedVersion } from "./aggregator-history.js";
import { type RunHead, readHistory, readLedger, readRunHead } from "./aggregator-repository.js";
import type { Surroundings } from "./aggregator-surroundings.js";
import { headDifferences, ledgerDifferences } from "./run-verify-documents.js";
import { type Fetched, isDamage, VerifyFiles } from "./run-verify-files.js";
import { hashRound } from "./run-verify-round.js";

export type Verdict =
  | { readonly kind: "verified" }
  /** Nothing is wrong as far as can be seen. */
  | { readonly kind: "unverifiable"; readonly reason: string }
  | { readonly kind: "differs"; readonly differences: readonly string[] };

export interface VersionCheck {
  readonly outerStep: number;
  /** In the round that made it. */
  readonly deltas: number;
  readonly verdict: Verdict;
}

export interface RunCheck {
  readonly title: string;
  readonly revision: string;
  /** Undefined for a repository without a version. */
  readonly outerStep: number | undefined;
  /** What is wrong with record, ledger and history themselves. */
  readonly documents: readonly string[];
  /** Oldest first. */
  readonly versions: readonly VersionCheck[];
}

export interface VerifyOptions {
  readonly transport: Transport;
  /** Its scratch room is emptied of what is put there. */
  readonly surroundings: Surroundings;
  readonly signal?: AbortSignal | undefined;
  readonly onVersion?: (check: VersionCheck) => void;
  /** Told what there is to read, before anything large is. */
  readonly onTotal?: (bytes: number) => void;
  readonly onBytes?: (bytes: number, path: string) => void;
}

/** @throws TransportError. */
export async function verifyRun(options: VerifyOptions): Promise<RunCheck> {
  const { transport, surroundings, signal, onVersion, onBytes = () => {} } = options;
  const { title } = transport;
  const revision = await transport.head({ signal });
  const documents: string[] = [];
  const head = await orFinding(readRunHead(transport, revision, signal), documents);
  if (head === undefined) return { title, revision, outerStep: undefined, documents, versions: [] };
  const { hasher } = surroundings;
  const history = (await orFinding(readHistory(transport, head, hasher, signal), documents)) ?? EMPTY_HISTORY;
  const hasLedger = head.facts.ledgerSha256 !== undefined;
  const ledger = hasLedger
    ? await orFinding(readLedger(transport, head, hasher, signal), documents)
    : undefined;
  const files = await VerifyFiles.list({ transport, surroundings, revision, onBytes, signal });
  documents.push(...headDifferences(head, history, files));
  options.onTotal?.(totalBytes(history, files));
  const run: Run = { head, history, ledger, files, surroundings };
  const versions: VersionCheck[] = [];
  try {
    for (const version of history.versions) {
      const { outerStep, modelFile, momentumFile } = version;
      const check = { outerStep, deltas: version.deltas.length, verdict: await verdictOn(version, run) };
      versions.push(check);
      onVersion?.(check);
      // The next version is made from this one.
      await files.keepOnly(momentumFile === undefined ? [modelFile] : [modelFile, momentumFile]);
    }
  } finally {
    await files.keepOnly([]);
  }
  const { outerStep } = head.record;
  return { title, revision, outerStep, documents, versions };
}

function totalBytes({ versions }: History, files: VerifyFiles): number {
  const paths = new Set(
    versions.flatMap(({ modelFile, momentumFile, deltas }) => [
      modelFile,
      ...(momentumFile === undefined ? [] : [momentumFile]),
      ...deltas.map(({ path }) => path),
    ]),
  );
  return [...paths].reduce((sum, path) => sum + (files.entry(path)?.sizeBytes ?? 0), 0);
}

interface Run {
  readonly head: RunHead;
  readonly history: History;
  /** Undefined where it cannot be read. */
  readonly ledger: Ledger | undefined;
  readonly files: VerifyFiles;
  readonly surroundings: Surroundings;
}

/** A document that is damaged is a finding, and the rest can be looked at without it. */
async function orFinding<T>(reading: Promise<T>, findings: string[]): Promise<T | undefined> {
  try {
    return await reading;
  } catch (error) {
    const isFinding =
      error instanceof AggregatorError ||
      error instanceof WireError ||
      error instanceof ProtocolError ||
      isDamage(error);
    if (!isFinding) throw error;
    findings.push((error as Error).message);
    return undefined;
  }
}

async function verdictOn(version: PublishedVersion, run: Run): Promise<Verdict> {
  const differences = ledgerDifferences(version, run.ledger, run.head);
  const unverifiable = (reason: string): Verdict =>
    differences.length > 0 ? { kind: "differs", differences } : { kind: "unverifiable", reason };
  const own = await published(version.modelFile, version.modelSha256, run, differences);
  if (version.momentumFile !== undefined)
    await published(version.momentumFile, version.momentumSha256, run, differences);
  if (version.parentOuterStep === undefined) {
    const match = own === undefined ? "its weights are no longer kept" : "its weights are as recorded";
    return unverifiable(`no round made it: a run begins with it; ${match}`);
  }
  const inputs = await roundInputs(version, version.parentOuterStep, run, differences);
  if ("reason" in inputs) return unverifiable(inputs.reason);
  const hashes = await hashRound(version, inputs, run.surroundings, run.head.facts.bufferPolicies);
  if ("problem" in hashes) differences.push(`its round cannot be computed: ${hashes.problem}`);
  else {
    const compare = (what: string, computed: string, recorded: string | undefined) => {
      if (computed !== recorded)
        differences.push(`computed ${what} have SHA-256 ${short(computed)}, recorded is ${short(recorded)}`);
    };
    compare("weights", hashes.state, version.modelSha256);
    compare("momentum buffers", hashes.momentum, version.momentumSha256);
  }
  return differences.length > 0 ? { kind: "differs", differences } : { kind: "verified" };
}

/** The file if it is there and right; what is wrong with it goes to `differences`. */
async function published(
  path: string,
  sha256: string | undefined,
  { files }: Run,
  differences: string[],
): Promise<Fetched | undefined> {
  try {
    const fetched = await files.fetch(path);
    if (fetched === undefined || fetched.sha256 === sha256) return fetched;
    differences.push(`${path} has SHA-256 ${short(fetched.sha256)}, recorded is ${short(sha256)}`);
  } catch (error) {
    if (!isDamage(error)) throw error;
    differences.push(`${path} is damaged: ${error.message}`);
  }
  return undefined;
}

/** All that the round needs, or why it is not there. */
async function roundInputs(
  version: PublishedVersion,
  parentOuterStep: number,
  run: Run,
  differences: string[],
) {
  const parent = run.history.versions.find(({ outerStep }) => outerStep === parentOuterStep);
  const missing = (reason: string) => ({ reason });
  if (parent === undefined)
    return missing(`the history no longer has version ${parentOuterStep}, its parent`);
  // What is wrong with the parent's files is said there.
  const elsewhere: string[] = [];
  const files = { state: parent.modelFile, momentum: parent.momentumFile };
  const state = await published(files.state, parent.modelSha256, run, elsewhere);
  if (state === undefined)
    return missing(
      `${files.state}, its parent's weights, ${elsewhere.length > 0 ? "differs" : "is no longer kept"}`,
    );
  let momentum: Fetched | undefined;
  if (files.momentum !== undefined) {
    momentum = await published(files.momentum, parent.momentumSha256, run, elsewhere);
    if (momentum === undefined)
      return missing(
        `${files.momentum}, its parent's momentum, ${elsewhere.length > 0 ? "differs" : "is no longer kept"}`,
      );
  }
  const gone = version.deltas.filter(({ path }) => run.files.entry(path) === undefined);
  if (gone.length > 0)
    return missing(`${gone.length} of ${version.deltas.length} deltas are no longer kept (${gone[0]!.path})`);
  const deltas: Fetched[] = [];
  for (const { path, sha256, contentId } of version.deltas) {
    if (run.files.entry(path)!.contentId !== contentId) {
      const fetched = await published(path, sha256, run, []);
      // The same bytes may be stored in another way.
      if (fetched === undefined) return missing(`${path} holds another delta now`);
    }
    const before = differences.length;
    const delta = await published(path, sha256, run, differences);
    if (differences.length > before || delta === undefined) return missing(`${path} differs`);
    deltas.push(delta);
  }
  return {
    state: state.file,
    momentum: momentum?.file,
    deltas: deltas.map(({ file }) => file),
  };
}

const short = (sha256: string | undefined) => (sha256 === undefined ? "none" : `${sha256.slice(0, 12)}…`);
