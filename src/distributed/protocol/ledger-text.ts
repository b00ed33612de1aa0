// The ledger as a document: JSON with one line per entry and fixed order of keys, so that one ledger has one text.
// What we read must be what we write; nothing is guessed.

import { parseForeignJson } from "../../util/json-depth.js";
import { parseDeltaPath } from "../wire/delta-path.js";
import { quote } from "../wire/errors.js";
import { compareCodePoints } from "../wire/order.js";
import { ProtocolError } from "./errors.js";
import type { Fate, Ledger, LedgerEntry } from "./ledger.js";

export const LEDGER_PATH = "global/ledger.json";
const FORMAT = 1;
const FATES: readonly Fate[] = ["applied", "merged", "stale", "rejected"];

export function encodeLedger({ entries, decidedUpTo = {} }: Ledger): string {
  const floors = Object.entries(decidedUpTo).sort(([a], [b]) => compareCodePoints(a, b));
  const lines = entries.map((entry) =>
    JSON.stringify({
      path: entry.path,
      node_id: entry.nodeId,
      sha256: entry.sha256,
      content_id: entry.contentId,
      fate: entry.fate,
      outer_step: entry.outerStep,
      weight: entry.weight,
      reason: entry.reason,
    }),
  );
  const list = lines.length === 0 ? "[]" : `[\n${lines.join(",\n")}\n]`;
  return `{"format":${FORMAT},\n"decided_up_to":${encodePairs(floors)},\n"entries":${list}}\n`;
}

/** @throws ProtocolError `protocol.invalid_ledger`. */
export function parseLedger(content: string | Uint8Array, file = LEDGER_PATH): Ledger {
  const fail = (message: string, cause?: unknown): never => {
    throw new ProtocolError("invalid_ledger", message, { file, cause });
  };
  let value: unknown;
  try {
    value = parseForeignJson(typeof content === "string" ? content : decodeUtf8(content));
  } catch (cause) {
    return fail(`is not JSON: ${(cause as Error).message}`, cause);
  }
  if (!isObject(value)) return fail("must be a JSON object");
  if (value.format !== FORMAT) {
    return fail(`format is ${shown(value.format)}, this program reads ${FORMAT}; update it`);
  }
  if (!Array.isArray(value.entries)) return fail("entries must be a list");
  const seen = new Set<string>();
  const entries = value.entries.map((item: unknown, index) => {
    const problem = entryProblem(item);
    if (problem !== undefined) return fail(`entries[${index}]${problem}`);
    const entry = toEntry(item as RawEntry);
    const name = `${entry.path}\n${entry.contentId}`;
    if (seen.has(name))
      return fail(`entries[${index}]: ${quote(entry.path)} stands twice with one content_id`);
    seen.add(name);
    return entry;
  });
  const floors = value.decided_up_to;
  if (!isObject(floors)) return fail("decided_up_to must be an object");
  for (const [life, number] of Object.entries(floors)) {
    if (!isCount(number)) return fail(`decided_up_to: ${quote(life)} is ${shown(number)}, no integer from 0`);
  }
  if (Object.keys(floors).length === 0) return { entries };
  return { entries, decidedUpTo: floors as Record<string, number> };
}

interface RawEntry {
  readonly path: string;
  readonly node_id: string;
  readonly sha256: string | null;
  readonly content_id: string;
  readonly fate: Fate;
  readonly outer_step: number;
  readonly weight: number;
  readonly reason: string;
}

function toEntry(raw: RawEntry): LedgerEntry {
  return {
    path: raw.path,
    nodeId: raw.node_id,
    sha256: raw.sha256,
    contentId: raw.content_id,
    fate: raw.fate,
    outerStep: raw.outer_step,
    weight: raw.weight,
    reason: raw.reason,
  };
}

/** Continues "entries[3]". */
function entryProblem(item: unknown): string | undefined {
  if (!isObject(item)) return " must be an object";
  const { path, node_id, sha256, content_id, fate, outer_step, weight, reason } = item;
  if (typeof path !== "string") return ".path must be a text";
  const parsed = parseDeltaPath(path);
  if (parsed.kind !== "delta") return `.path ${quote(path)} is no path of a delta`;
  if (node_id !== parsed.nodeId)
    return `.node_id is ${shown(node_id)}, the path says ${quote(parsed.nodeId)}`;
  if (sha256 !== null && !(typeof sha256 === "string" && /^[0-9a-f]{64}$/.test(sha256))) {
    return `.sha256 is ${shown(sha256)}, neither null nor 64 hexadecimal digits`;
  }
  if (typeof content_id !== "string" || content_id === "") return ".content_id must be a text";
  if (!FATES.includes(fate as Fate)) return `.fate is ${shown(fate)}, not one of ${FATES.join(", ")}`;
  if (!isCount(outer_step)) return `.outer_step is ${shown(outer_step)}, no integer from 0`;
  if (typeof weight !== "number") return `.weight is ${shown(weight)}, no number`;
  if (typeof reason !== "string") return ".reason must be a text";
  const isInSum = fate === "applied" || fate === "merged";
  if (isInSum && sha256 === null) return `.sha256 is null, but the delta is ${fate}`;
  if (!isInSum && weight !== 0) return `.weight is ${weight}, but the delta is ${String(fate)}`;
  return undefined;
}

function encodePairs(pairs: readonly (readonly [string, number])[]): string {
  return `{${pairs.map(([name, value]) => `${JSON.stringify(name)}:${value}`).join(",")}}`;
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}

function shown(value: unknown): string {
  return (JSON.stringify(value) ?? "missing").slice(0, 120);
}

function decodeUtf8(bytes: Uint8Array): string {
  return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
}
