// The metadata in a delta file's header. Four keys that every node writes, and extra ones of ours under a prefix that
// sorts behind them; Python peers ignore the latter. The path, not the header, is a delta's identity.

import type { DeltaPath } from "./delta-path.js";
import { quote, WireError } from "./errors.js";
import { checkNodeId } from "./node-id.js";
import { parsePythonInteger } from "./python-integer.js";
import { ALGORITHM } from "./version-record.js";

/** `baseOuterStep` of a node that never installed a version. */
export const NO_BASE = -1;

/** Prefix of our own keys in the file. */
const EXTRA_PREFIX = "speedtronic.";

/** What the header says. Fields that only describe are undefined where a peer left them out. */
export interface DeltaHeader {
  /** Last version that the node had installed; {@link NO_BASE} if none. */
  readonly baseOuterStep: number;
  readonly nodeId: string | undefined;
  readonly localStep: number | undefined;
  readonly algorithm: string | undefined;
  /** Our own keys, without their prefix. */
  readonly extra: ReadonlyMap<string, string>;
}

export interface DeltaHeaderInput {
  readonly nodeId: string;
  /** The trainer's step at the boundary, from 0. */
  readonly localStep: number;
  readonly baseOuterStep: number;
  /** More keys: fingerprint, token count, content hash. */
  readonly extra?: Readonly<Record<string, string>>;
}

/**
 * The metadata to write.
 * @throws WireError `wire.invalid_header`, `wire.invalid_node_id`.
 */
export function deltaMetadata({ nodeId, localStep, baseOuterStep, extra = {} }: DeltaHeaderInput) {
  checkNodeId(nodeId);
  requireInteger("local_step", localStep, 0);
  requireInteger("base_outer_step", baseOuterStep, NO_BASE);
  const ours = Object.entries(extra).map(([key, value]): [string, string] => [EXTRA_PREFIX + key, value]);
  return new Map<string, string>([
    ["algorithm", ALGORITHM],
    ["base_outer_step", String(baseOuterStep + 0)],
    ["local_step", String(localStep + 0)],
    ["node_id", nodeId],
    ...ours,
  ]);
}

/**
 * Reads the metadata of a delta file. A missing base counts as none.
 * @throws WireError `wire.invalid_header` when the base is no integer from -1 to 2^53 - 1.
 */
export function parseDeltaHeader(metadata: ReadonlyMap<string, string>, file?: string): DeltaHeader {
  const baseText = metadata.get("base_outer_step");
  const base = baseText === undefined ? NO_BASE : parsePythonInteger(baseText);
  if (base === undefined || base < NO_BASE) {
    const message = `base_outer_step ${quote(baseText ?? "")} must be an integer from -1 to 2^53 - 1`;
    throw new WireError("invalid_header", message, { file });
  }
  const stepText = metadata.get("local_step");
  return {
    baseOuterStep: base,
    nodeId: metadata.get("node_id"),
    localStep: stepText === undefined ? undefined : parsePythonInteger(stepText),
    algorithm: metadata.get("algorithm"),
    extra: new Map(
      [...metadata]
        .filter(([key]) => key.startsWith(EXTRA_PREFIX))
        .map(([key, value]) => [key.slice(EXTRA_PREFIX.length), value]),
    ),
  };
}

/**
 * What in a header contradicts the path that the file lies under, one sentence each; empty when all agrees. The step
 * in the path may be another number than the trainer's, so that a difference is reported only on request.
 */
export function headerContradictions(
  header: DeltaHeader,
  path: DeltaPath,
  { compareStep = false }: { compareStep?: boolean } = {},
): string[] {
  const found: string[] = [];
  const { nodeId, localStep, algorithm } = header;
  if (nodeId !== undefined && nodeId !== path.nodeId) {
    found.push(`node_id is ${quote(nodeId)}, the path says ${quote(path.nodeId)}`);
  }
  if (algorithm !== undefined && algorithm !== ALGORITHM) {
    found.push(`algorithm is ${quote(algorithm)}, ${quote(ALGORITHM)} is expected`);
  }
  if (compareStep && localStep !== undefined && localStep !== path.localStep) {
    found.push(`local_step is ${localStep}, the path says ${path.localStep}`);
  }
  return found;
}

function requireInteger(key: string, value: number, min: number): void {
  if (Number.isSafeInteger(value) && value >= min) return;
  throw new WireError("invalid_header", `${key} ${value} must be an integer from ${min} to 2^53 - 1`);
}
