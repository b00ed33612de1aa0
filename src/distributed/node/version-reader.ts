// The published version at one revision of the repository, as a node needs it: number, weights, ledger. Small files
// only; the weights themselves are fetch-version.ts.

import { fingerprintDifferences, type ModelFingerprint, parseFingerprint } from "../protocol/fingerprint.js";
import { parseLedger } from "../protocol/ledger-text.js";
import type { SeenVersion } from "../protocol/worker-contract.js";
import type { CallOptions, Transport } from "../transports/contract.js";
import { TransportError } from "../transports/errors.js";
import { parseVersionRecord, VERSION_RECORD_PATH, type VersionRecord } from "../wire/index.js";
import { NodeError } from "./errors.js";
import { OTHER_MODEL_ADVICE } from "./other-model.js";
import type { NewHasher } from "./outbox.js";

/** Our own keys in the version record. */
export const RECORD_KEYS = {
  modelSha256: "model_sha256",
  ledgerFile: "ledger_file",
  ledgerSha256: "ledger_sha256",
  fingerprint: "fingerprint",
} as const;

const MAX_RECORD_BYTES = 2 ** 24;
const MAX_LEDGER_BYTES = 2 ** 28;
const LEDGER_FILE = /^global\/(?!.*\.\.)[A-Za-z0-9._-]+(?:\/[A-Za-z0-9._-]+)*\.json$/;
const SHA256 = /^[0-9a-f]{64}$/;

export interface VersionReaderOptions extends CallOptions {
  readonly fingerprint: ModelFingerprint;
  readonly newHasher: NewHasher;
  /** The ledger of a version up to this one is not wanted any more; nor is anything else but its number. */
  readonly knownOuterStep?: number | undefined;
}

/**
 * The version at `revision`; undefined where none was published yet.
 * @throws NodeError `node.refused_version`, `node.other_model`, WireError, ProtocolError: this version is not followed. TransportError: it
 *   could not be read (`corrupt` where files do not belong together).
 */
export async function readVersion(
  transport: Transport,
  revision: string,
  options: VersionReaderOptions,
): Promise<SeenVersion | undefined> {
  const content = await transport.read(revision, VERSION_RECORD_PATH, MAX_RECORD_BYTES, options);
  if (content === undefined) return undefined;
  const record = parseVersionRecord(content);
  const { outerStep, modelFile } = record;
  const modelSha256 = hashField(record, RECORD_KEYS.modelSha256);
  const version = { outerStep, revision, modelFile, modelSha256, fields: record.extra };
  if (options.knownOuterStep !== undefined && outerStep <= options.knownOuterStep)
    return { ...version, ledger: undefined };
  requireFingerprint(record, options.fingerprint);
  const ledgerFile = record.extra[RECORD_KEYS.ledgerFile];
  if (ledgerFile === undefined) return { ...version, ledger: undefined };
  if (typeof ledgerFile !== "string" || ledgerFile.length > 200 || !LEDGER_FILE.test(ledgerFile))
    throw refused(
      `${RECORD_KEYS.ledgerFile} ${shown(ledgerFile)} is no plain path of a .json file under global/`,
    );
  const bytes = await transport.read(revision, ledgerFile, MAX_LEDGER_BYTES, options);
  if (bytes === undefined) throw refused(`the ledger ${ledgerFile} is not in the repository`);
  const expected = hashField(record, RECORD_KEYS.ledgerSha256);
  const hasher = options.newHasher();
  hasher.update(bytes);
  const found = hasher.digest();
  if (expected !== undefined && found !== expected)
    throw new TransportError(
      "corrupt",
      `${ledgerFile}: SHA-256 is ${found}, the version record says ${expected}`,
      {
        path: ledgerFile,
      },
    );
  return { ...version, ledger: parseLedger(bytes, ledgerFile) };
}

function requireFingerprint(record: VersionRecord, ours: ModelFingerprint): void {
  const theirs = record.extra[RECORD_KEYS.fingerprint];
  if (theirs === undefined) return;
  const published = parseFingerprint(JSON.stringify(theirs));
  if (published === undefined) throw refused(`${RECORD_KEYS.fingerprint} ${shown(theirs)} is no object`);
  const differences = fingerprintDifferences(ours, published);
  if (differences.length === 0) return;
  throw new NodeError(
    "other_model",
    `${VERSION_RECORD_PATH}: version ${record.outerStep} is of another model: ${differences.join("; ")}. ${OTHER_MODEL_ADVICE}`,
    { details: { differences } },
  );
}

function hashField(record: VersionRecord, key: string): string | undefined {
  const value = record.extra[key];
  if (value === undefined || value === null) return undefined;
  if (typeof value === "string" && SHA256.test(value)) return value;
  throw refused(`${key} ${shown(value)} is no SHA-256 in lower-case hexadecimal`);
}

function refused(message: string): NodeError {
  return new NodeError("refused_version", `${VERSION_RECORD_PATH}: ${message}`);
}

function shown(value: unknown): string {
  return JSON.stringify(value).slice(0, 120);
}
