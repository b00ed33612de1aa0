// What the version record says beyond what Python writes: hashes, where momentum, ledger and history lie, and who the
// master is. Keys of others (leases, for example) are carried over by whoever writes the next record.

import { fingerprintText, type ModelFingerprint, parseFingerprint } from "../protocol/fingerprint.js";
import { LEDGER_PATH } from "../protocol/ledger-text.js";
import { type BufferPolicies, parseBufferPolicies } from "../wire/buffer-merge.js";
import { WireError } from "../wire/errors.js";
import { checkModelFile } from "../wire/model-file.js";
import type { JsonValue } from "../wire/python-json.js";
import type { VersionRecord } from "../wire/version-record.js";
import { VERSION_RECORD_PATH } from "../wire/version-record.js";
import { HISTORY_PATH } from "./aggregator-history.js";

/** Who may publish: one master in one life. A higher term replaces a lower one. */
export interface Ownership {
  readonly masterId: string;
  readonly term: number;
  /** Random: two processes of one id that claim the same term at the same time are two masters. */
  readonly life?: string | undefined;
}

/** Undefined where a record has nothing (a Python master's has none of it). */
export interface RecordFacts {
  readonly owner: Ownership | undefined;
  readonly parentOuterStep: number | undefined;
  readonly modelSha256: string | undefined;
  /** Undefined for zeros. */
  readonly momentumFile: string | undefined;
  readonly momentumSha256: string | undefined;
  readonly ledgerSha256: string | undefined;
  readonly historySha256: string | undefined;
  readonly outerLr: number | undefined;
  readonly outerMomentum: number | undefined;
  readonly fingerprint: ModelFingerprint | undefined;
  /** Of the run's buffers; the same for all of its versions. */
  readonly bufferPolicies: BufferPolicies | undefined;
}

const OWN_KEYS = [
  "buffer_policies",
  "fingerprint",
  "history_file",
  "history_sha256",
  "ledger_file",
  "ledger_sha256",
  "master_id",
  "master_life",
  "master_term",
  "model_sha256",
  "momentum_file",
  "momentum_sha256",
  "outer_lr",
  "outer_momentum",
  "parent_outer_step",
] as const;

/** The extra keys of a record: `facts` over what is there, keys of others kept. */
export function extraOf(
  facts: RecordFacts,
  earlier: Readonly<Record<string, JsonValue>> = {},
): Record<string, JsonValue> {
  const { owner } = facts;
  const ours: Record<(typeof OWN_KEYS)[number], JsonValue | undefined> = {
    buffer_policies: facts.bufferPolicies,
    fingerprint: facts.fingerprint,
    history_file: facts.historySha256 && HISTORY_PATH,
    history_sha256: facts.historySha256,
    ledger_file: facts.ledgerSha256 && LEDGER_PATH,
    ledger_sha256: facts.ledgerSha256,
    master_id: owner?.masterId,
    master_life: owner?.life,
    master_term: owner?.term,
    model_sha256: facts.modelSha256,
    momentum_file: facts.momentumFile,
    momentum_sha256: facts.momentumSha256,
    outer_lr: facts.outerLr,
    outer_momentum: facts.outerMomentum,
    parent_outer_step: facts.parentOuterStep,
  };
  const result: Record<string, JsonValue> = {};
  for (const [key, value] of Object.entries(earlier)) if (!Object.hasOwn(ours, key)) result[key] = value;
  for (const key of OWN_KEYS) {
    const value = ours[key];
    if (value !== undefined) result[key] = value;
  }
  return result;
}

/** @throws WireError `wire.invalid_record`, `wire.invalid_model_file`: nothing is guessed in what we wrote ourselves. */
export function factsOf({ extra }: VersionRecord): RecordFacts {
  const field = (key: (typeof OWN_KEYS)[number]) => (Object.hasOwn(extra, key) ? extra[key] : undefined);
  const get = <T>(
    key: (typeof OWN_KEYS)[number],
    isGood: (value: JsonValue) => boolean,
    what: string,
  ): T | undefined => {
    const value = field(key);
    if (value === undefined) return undefined;
    if (isGood(value)) return value as T;
    const message = `${key} is ${JSON.stringify(value).slice(0, 120)}, not ${what}`;
    throw new WireError("invalid_record", message, { file: VERSION_RECORD_PATH });
  };
  const hash = (key: (typeof OWN_KEYS)[number]) => get<string>(key, isHash, "64 hexadecimal digits");
  const place = (key: "history_file" | "ledger_file", path: string) =>
    get<string>(key, (value) => value === path, JSON.stringify(path));
  const masterId = get<string>("master_id", (value) => typeof value === "string" && value !== "", "a name");
  const life = get<string>("master_life", (value) => typeof value === "string", "a text");
  const term = get<number>("master_term", isCount, "an integer from 0");
  const momentumFile = get<string>("momentum_file", (value) => typeof value === "string", "a path");
  place("history_file", HISTORY_PATH);
  place("ledger_file", LEDGER_PATH);
  const policies = field("buffer_policies");
  const fingerprint = get<ModelFingerprint>("fingerprint", isObject, "an object");
  return {
    owner: masterId === undefined ? undefined : { masterId, term: term ?? 0, life },
    parentOuterStep: get<number>("parent_outer_step", isCount, "an integer from 0"),
    modelSha256: hash("model_sha256"),
    momentumFile:
      momentumFile === undefined
        ? undefined
        : checkModelFile(momentumFile, VERSION_RECORD_PATH, "momentum_file"),
    momentumSha256: hash("momentum_sha256"),
    ledgerSha256: hash("ledger_sha256"),
    historySha256: hash("history_sha256"),
    outerLr: get<number>("outer_lr", isNumber, "a number"),
    outerMomentum: get<number>("outer_momentum", isNumber, "a number"),
    // Through its text: a fingerprint is compared in canonical form only.
    fingerprint: fingerprint && parseFingerprint(fingerprintText(fingerprint)),
    bufferPolicies: policies === undefined ? undefined : parseBufferPolicies(policies, VERSION_RECORD_PATH),
  };
}

export function isSameOwner(a: Ownership | undefined, b: Ownership | undefined): boolean {
  return (
    a !== undefined && b !== undefined && a.masterId === b.masterId && a.term === b.term && a.life === b.life
  );
}

/** Path of a version's momentum. */
export function momentumFile(outerStep: number): string {
  return `global/momentum_${String(outerStep).padStart(6, "0")}.safetensors`;
}

const isHash = (value: JsonValue) => typeof value === "string" && /^[0-9a-f]{64}$/.test(value);
const isCount = (value: JsonValue) => Number.isSafeInteger(value) && (value as number) >= 0;
const isNumber = (value: JsonValue) => typeof value === "number";
const isObject = (value: JsonValue) => typeof value === "object" && value !== null && !Array.isArray(value);
