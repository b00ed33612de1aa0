// The run in the repository as its master holds it: restored or taken over. All that a master needs is in the
// repository; the scratch room only saves downloads.

import type { ByteSink } from "../../formats/safetensors/index.js";
import { fingerprintDifferences, type ModelFingerprint } from "../protocol/fingerprint.js";
import type { Ledger } from "../protocol/ledger.js";
import { LEDGER_PATH } from "../protocol/ledger-text.js";
import { MAX_OUTER_STEP } from "../protocol/numbers.js";
import type { RepoOperation, Transport } from "../transports/contract.js";
import { type BufferPolicies, policyOf } from "../wire/buffer-merge.js";
import { versionedModelFile } from "../wire/model-file.js";
import { encodeVersionRecord, VERSION_RECORD_PATH, type VersionRecord } from "../wire/version-record.js";
import { adoptDeltas } from "./aggregator-adopt.js";
import { commitChecked } from "./aggregator-commit.js";
import { AggregatorError } from "./aggregator-errors.js";
import { requireFittingMomentum } from "./aggregator-files.js";
import { EMPTY_HISTORY, encodeHistory, HISTORY_PATH, type History } from "./aggregator-history.js";
import { deltaModel } from "./aggregator-inspect.js";
import { extraOf, isSameOwner, type Ownership, type RecordFacts } from "./aggregator-record.js";
import {
  damaged,
  fetchFile,
  ledgerDocument,
  type RunHead,
  readHistory,
  readLedger,
} from "./aggregator-repository.js";
import { type ScratchFile, type Surroundings, sha256Of, smallContent } from "./aggregator-surroundings.js";

/** What the newest version consists of, and who may publish the next. */
export interface LiveRun {
  readonly head: RunHead;
  readonly owner: Ownership;
  readonly state: ScratchFile;
  /** Undefined for zeros. */
  readonly momentum: ScratchFile | undefined;
  readonly ledger: Ledger;
  readonly history: History;
  readonly fingerprint: ModelFingerprint | undefined;
}

export interface Bootstrap {
  /** Writes the weights of version 0 as a safetensors file. */
  writeState(sink: ByteSink): Promise<void>;
  /** Start the run even if everybody can read the repository. */
  readonly allowPublic?: boolean;
}

export interface RunOptions {
  readonly transport: Transport;
  readonly surroundings: Surroundings;
  readonly masterId: string;
  /** From 0 to below 1. Default: Math.random. */
  readonly random?: (() => number) | undefined;
  /** Become the master of a run that another one publishes. */
  readonly takeOver?: boolean;
  /** Used only if the repository has no run. */
  readonly bootstrap?: Bootstrap | undefined;
  /** Of the model that is expected. */
  readonly fingerprint?: ModelFingerprint | undefined;
  /** Larger files of weights or momentum than this are not fetched. Default: any size. */
  readonly maxStateBytes?: number | undefined;
  /** Of the model's buffers, where it has some. */
  readonly bufferPolicies?: BufferPolicies | undefined;
  readonly signal?: AbortSignal | undefined;
  readonly onEvent?: (event: string, payload: Readonly<Record<string, unknown>>) => void;
}

/** An earlier process of this master published while this one claimed the run: read it again. */
export class MovedError extends Error {}

/** Name in the scratch room of a version's file. */
export const scratchName = (transport: Transport, path: string): string => `${transport.key}/${path}`;

/**
 * Becomes the master of the run at `head`; the repository says so when this returns.
 * @throws AggregatorError, TransportError, WireError.
 */
export async function claimRun(options: RunOptions, head: RunHead): Promise<LiveRun> {
  const { transport, surroundings, signal } = options;
  const { facts, record } = head;
  requireClaimable(options, head);
  if (record.outerStep > MAX_OUTER_STEP)
    throw damaged(
      transport,
      VERSION_RECORD_PATH,
      `says outer_step ${record.outerStep}, which no run reaches`,
    );
  const fingerprint = requireSameModel(options, facts);
  const loaded = await loadRun(transport, surroundings, head, options);
  // Nothing is claimed of a model that no round can change.
  await deltaModel(loaded.state, fingerprint);
  const isForeign = facts.owner === undefined;
  const ledger = isForeign ? await adoptDeltas(options, head, loaded.state) : loaded.ledger;
  const owner: Ownership = {
    masterId: options.masterId,
    term: (facts.owner?.term ?? 0) + 1,
    life: newLife(options),
  };
  const { hasher } = surroundings;
  const operations: RepoOperation[] = [];
  const put = (path: string, content: ReturnType<ScratchFile["content"]>) =>
    operations.push({ kind: "put", path, content });
  let { modelFile } = record;
  let { history } = loaded;
  const ledgerText = ledgerDocument(ledger, hasher);
  if (isForeign) {
    modelFile = versionedModelFile(record.outerStep);
    history = { ...EMPTY_HISTORY, versions: [startOf(record.outerStep, modelFile, loaded.state.sha256)] };
    put(modelFile, loaded.state.content());
    put(LEDGER_PATH, smallContent(hasher, ledgerText.text));
    put(HISTORY_PATH, smallContent(hasher, encodeHistory(history)));
  }
  const newFacts: RecordFacts = {
    ...facts,
    owner,
    fingerprint,
    // Those of the run, for good: its versions are computed again with them.
    bufferPolicies: isForeign ? options.bufferPolicies : facts.bufferPolicies,
    modelSha256: loaded.state.sha256,
    ledgerSha256: isForeign ? ledgerText.sha256 : facts.ledgerSha256,
    historySha256: isForeign ? sha256Of(hasher, encodeHistory(history)) : facts.historySha256,
  };
  const newRecord: VersionRecord = { ...record, modelFile, extra: extraOf(newFacts, record.extra) };
  put(VERSION_RECORD_PATH, smallContent(hasher, encodeVersionRecord(newRecord)));
  const message = `speedtronic: ${owner.masterId} is the master (term ${owner.term}), version ${record.outerStep}`;
  const revision = await commitChecked(
    transport,
    surroundings.clock,
    {
      parent: head.revision,
      random: options.random,
      build: (parent) => ({ parent, message, operations }),
      look: (found) => {
        if (found !== undefined && isSameOwner(found.facts.owner, owner)) return "done";
        // Word for word: a master may also publish fates, which leave the version as it is.
        const isUnchanged =
          found !== undefined && encodeVersionRecord(found.record) === encodeVersionRecord(record);
        if (isUnchanged) return "again";
        // A take-over does not extend to a master that came in between.
        if (!isSameOwner(found?.facts.owner, facts.owner)) requireClaimable(options, found, owner);
        throw new MovedError(`${transport.title}: the run has moved on`);
      },
    },
    signal,
  );
  options.onEvent?.("master_claimed", {
    outer_step: record.outerStep,
    master_id: owner.masterId,
    term: owner.term,
    previous: facts.owner?.masterId ?? (isForeign ? "python" : null),
  });
  return {
    ...loaded,
    head: { revision, record: newRecord, facts: newFacts },
    owner,
    ledger,
    history,
    fingerprint,
  };
}

/** Everything that the head's record names, checked against its hashes. Claims nothing. */
export async function loadRun(
  transport: Transport,
  surroundings: Surroundings,
  head: RunHead,
  { signal, maxStateBytes: maxBytes }: Pick<RunOptions, "signal" | "maxStateBytes"> = {},
): Promise<Pick<LiveRun, "state" | "momentum" | "ledger" | "history">> {
  const { revision, record, facts } = head;
  const { hasher } = surroundings;
  const fetchNamed = (path: string, sha256: string | undefined, name: string) =>
    fetchFile(
      transport,
      surroundings,
      { revision, path, sha256, maxBytes, name: scratchName(transport, name) },
      signal,
    );
  const state = await fetchNamed(record.modelFile, facts.modelSha256, versionedModelFile(record.outerStep));
  const momentum =
    facts.momentumFile === undefined
      ? undefined
      : await fetchNamed(facts.momentumFile, facts.momentumSha256, facts.momentumFile);
  if (momentum !== undefined) await requireFittingMomentum(transport, facts.momentumFile!, state, momentum);
  return {
    state,
    momentum,
    ledger: await readLedger(transport, head, hasher, signal),
    history: await readHistory(transport, head, hasher, signal),
  };
}

/** Tells this process from another one with the same id. */
export function newLife({ random = Math.random }: Pick<RunOptions, "random">): string {
  return Array.from({ length: 16 }, () => Math.floor(random() * 16).toString(16)).join("");
}

/** Another one is the master now: nothing may be published any more. */
export function fencedError(
  transport: Transport,
  found: RunHead | undefined,
  owner: Ownership,
): AggregatorError {
  const who =
    found === undefined
      ? "its version record is gone"
      : found.facts.owner === undefined
        ? `a master without an id (Python) published version ${found.record.outerStep}`
        : `${found.facts.owner.masterId} (term ${found.facts.owner.term}) is the master, at version ${found.record.outerStep}`;
  return new AggregatorError(
    "fenced",
    `${transport.title}: fenced off: ${who}; this is ${owner.masterId} (term ${owner.term}). Stop the other one and start this one with --take-over if it should go on`,
    { details: { owner: found?.facts.owner, outerStep: found?.record.outerStep } },
  );
}

/** The record is another one, in this master's name, and this master did not write it. */
export function forgedError(
  transport: Transport,
  found: RunHead,
  { owner, record, revision }: Pick<RunHead, "record" | "revision"> & { readonly owner: Ownership },
): AggregatorError {
  return new AggregatorError(
    "forged",
    `${transport.title}: ${VERSION_RECORD_PATH} names version ${found.record.outerStep} in the name of ${owner.masterId}, which ` +
      `published version ${record.outerStep} last: somebody else who may write there changed it. Find out who, put the file ` +
      `back as it is at revision ${revision}, and start this master again`,
    { details: { outerStep: found.record.outerStep, published: record.outerStep, revision } },
  );
}

/** The entry of a version that no round made. */
export function startOf(
  outerStep: number,
  modelFile: string,
  modelSha256: string,
): History["versions"][number] {
  return {
    outerStep,
    parentOuterStep: undefined,
    modelFile,
    modelSha256,
    momentumFile: undefined,
    momentumSha256: undefined,
    lr: 0,
    mu: 0,
    usesPlainMean: false,
    deltas: [],
  };
}

function requireClaimable(
  { transport, masterId, takeOver }: RunOptions,
  head: RunHead | undefined,
  owner: Ownership = { masterId, term: 0 },
): asserts head is RunHead {
  // Who takes over says so once: it is not said about a master that was faster.
  const mayTakeOver = takeOver === true && owner.term === 0;
  if (head !== undefined && (mayTakeOver || head.facts.owner?.masterId === masterId)) return;
  throw fencedError(transport, head, owner);
}

/** The run's own fingerprint, or ours where it has none. */
function requireSameModel(
  { transport, fingerprint, bufferPolicies }: RunOptions,
  facts: RecordFacts,
): ModelFingerprint | undefined {
  const differences = [
    ...(fingerprint && facts.fingerprint ? fingerprintDifferences(fingerprint, facts.fingerprint) : []),
    ...(bufferPolicies && facts.owner ? policyDifferences(bufferPolicies, facts.bufferPolicies ?? {}) : []),
  ];
  if (differences.length === 0) return facts.fingerprint ?? fingerprint;
  throw new AggregatorError(
    "other_model",
    `${transport.title} holds a run of another model: ${differences.join("; ")}. Use the configuration of that run, or another repository`,
    { details: { differences } },
  );
}

function policyDifferences(ours: BufferPolicies, theirs: BufferPolicies): string[] {
  const names = [...new Set([...Object.keys(ours), ...Object.keys(theirs)])].sort();
  const shown = (policies: BufferPolicies, name: string) => policyOf(policies, name) ?? "weights";
  return names
    .filter((name) => policyOf(ours, name) !== policyOf(theirs, name))
    .map((name) => `buffer ${name} is merged as ${shown(theirs, name)}, here as ${shown(ours, name)}`);
}
