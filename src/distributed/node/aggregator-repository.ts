// Reading what a run has in its repository: the record, the documents it names, whole weights with their hash.

import { EMPTY_LEDGER, type Ledger } from "../protocol/ledger.js";
import { encodeLedger, LEDGER_PATH, parseLedger } from "../protocol/ledger-text.js";
import type { ListedDelta } from "../protocol/master-contract.js";
import type { Transport } from "../transports/contract.js";
import { parseDeltaPath } from "../wire/delta-path.js";
import { WireError } from "../wire/errors.js";
import { parseVersionRecord, VERSION_RECORD_PATH, type VersionRecord } from "../wire/version-record.js";
import { AggregatorError } from "./aggregator-errors.js";
import { EMPTY_HISTORY, HISTORY_PATH, type History, parseHistory } from "./aggregator-history.js";
import { factsOf, type RecordFacts } from "./aggregator-record.js";
import { copySource, type ScratchFile, type Surroundings, sha256Of } from "./aggregator-surroundings.js";

const MAX_RECORD_BYTES = 2 ** 22;
const MAX_DOCUMENT_BYTES = 2 ** 28;

/** The run at one revision. */
export interface RunHead {
  readonly revision: string;
  readonly record: VersionRecord;
  readonly facts: RecordFacts;
}

/** Undefined only when the repository was read and has no record. */
export async function readRunHead(
  transport: Transport,
  revision: string,
  signal?: AbortSignal,
): Promise<RunHead | undefined> {
  const bytes = await transport.read(revision, VERSION_RECORD_PATH, MAX_RECORD_BYTES, { signal });
  if (bytes === undefined) return undefined;
  try {
    const record = parseVersionRecord(bytes);
    return { revision, record, facts: factsOf(record) };
  } catch (error) {
    if (!(error instanceof WireError)) throw error;
    throw damaged(transport, VERSION_RECORD_PATH, `cannot be followed: ${error.message}`, error);
  }
}

/** The ledger that belongs to the record; empty under a master that keeps none. */
export async function readLedger(
  transport: Transport,
  { revision, facts }: RunHead,
  hasher: Surroundings["hasher"],
  signal?: AbortSignal,
): Promise<Ledger> {
  if (facts.ledgerSha256 === undefined) return EMPTY_LEDGER;
  return parseLedger(
    await readDocument(transport, revision, LEDGER_PATH, facts.ledgerSha256, hasher, signal),
  );
}

export async function readHistory(
  transport: Transport,
  { revision, facts }: RunHead,
  hasher: Surroundings["hasher"],
  signal?: AbortSignal,
): Promise<History> {
  if (facts.historySha256 === undefined) return EMPTY_HISTORY;
  return parseHistory(
    await readDocument(transport, revision, HISTORY_PATH, facts.historySha256, hasher, signal),
  );
}

async function readDocument(
  transport: Transport,
  revision: string,
  path: string,
  sha256: string,
  hasher: Surroundings["hasher"],
  signal?: AbortSignal,
): Promise<Uint8Array> {
  const bytes = await transport.read(revision, path, MAX_DOCUMENT_BYTES, { signal });
  if (bytes === undefined) throw damaged(transport, path, "is missing");
  const found = sha256Of(hasher, bytes);
  if (found !== sha256)
    throw damaged(transport, path, `has SHA-256 ${found}, the version record says ${sha256}`);
  return bytes;
}

/** A file of the repository in the scratch room under `name`; reused if its hash is right already. */
export async function fetchFile(
  transport: Transport,
  surroundings: Surroundings,
  request: {
    readonly revision: string;
    readonly path: string;
    readonly name: string;
    /** Undefined under a Python master. */
    readonly sha256: string | undefined;
    /** A larger file is refused before it is fetched. */
    readonly maxBytes?: number | undefined;
  },
  signal?: AbortSignal,
): Promise<ScratchFile> {
  const { revision, path, name, sha256, maxBytes = Number.POSITIVE_INFINITY } = request;
  if (sha256 !== undefined) {
    const found = await surroundings.scratch.find(name);
    if (found?.sha256 === sha256) return found;
  }
  const source = await transport.open(revision, path, { signal });
  try {
    if (source.sizeBytes > maxBytes)
      throw damaged(transport, path, `has ${source.sizeBytes} bytes, this model's state at most ${maxBytes}`);
    const file = await surroundings.scratch.write(name, (sink) => copySource(source, sink, signal));
    if (sha256 === undefined || file.sha256 === sha256) return file;
    await surroundings.scratch.remove(name);
    throw damaged(transport, path, `has SHA-256 ${file.sha256}, ${sha256} is recorded`);
  } finally {
    await source.close?.();
  }
}

/** Deltas in canonical form; others are reported through `onOdd`. */
export async function listDeltas(
  transport: Transport,
  revision: string,
  signal?: AbortSignal,
  onOdd: (path: string, reason: string) => void = () => {},
): Promise<ListedDelta[]> {
  const deltas: ListedDelta[] = [];
  for (const { path, sizeBytes, contentId } of await transport.list(revision, "nodes/", { signal })) {
    const parsed = parseDeltaPath(path);
    if (parsed.kind === "odd") onOdd(path, parsed.reason);
    if (parsed.kind !== "delta") continue;
    deltas.push({ path, nodeId: parsed.nodeId, number: parsed.localStep, sizeBytes, contentId });
  }
  return deltas;
}

/** Name in the scratch room for a delta's content: no text of a peer becomes a part of a path. */
export function deltaCacheName(
  transport: Transport,
  { nodeId, path, contentId }: Pick<ListedDelta, "nodeId" | "path" | "contentId">,
  hasher: Surroundings["hasher"],
): string {
  const node = sha256Of(hasher, nodeId).slice(0, 16);
  return `${deltaCachePrefix(transport)}${node}/${sha256Of(hasher, `${path}\n${contentId}`).slice(0, 40)}.safetensors`;
}

export const deltaCachePrefix = (transport: Transport): string => `${transport.key}/deltas/`;

export function damaged(transport: Transport, path: string, what: string, cause?: unknown): AggregatorError {
  return new AggregatorError(
    "damaged_repository",
    `${transport.title}: ${path} ${what}; restore that file from an earlier revision of the repository`,
    { details: { path }, cause },
  );
}

/** Text and hash of the ledger. */
export function ledgerDocument(ledger: Ledger, hasher: Surroundings["hasher"]) {
  const text = encodeLedger(ledger);
  return { text, sha256: sha256Of(hasher, text) };
}
