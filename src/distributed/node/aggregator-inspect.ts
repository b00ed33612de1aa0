// Looks into a delta: fetches it once, and decides whether it can be added to this model at all. What it is worth is
// the reducer's affair.

import { openSafetensors } from "../../formats/safetensors/index.js";
import { fingerprintDifferences, type ModelFingerprint, parseFingerprint } from "../protocol/fingerprint.js";
import type { Inspection, ListedDelta } from "../protocol/master-contract.js";
import { SHARDS_HEADER_KEY } from "../protocol/shard-report.js";
import type { Transport } from "../transports/contract.js";
import { loadDelta } from "../wire/delta-file.js";
import { type DeltaHeader, headerContradictions } from "../wire/delta-header.js";
import { parseDeltaPath } from "../wire/delta-path.js";
import { describeDelta } from "../wire/delta-summary.js";
import { WireError } from "../wire/errors.js";
import type { OuterKernels } from "../wire/outer-kernels.js";
import { onlyRealEntries, type RealEntry, realEntries, requireSameTensors } from "../wire/state.js";
import { deltaCacheName, fetchFile } from "./aggregator-repository.js";
import type { ScratchFile, Surroundings } from "./aggregator-surroundings.js";
import { maxFileBytes } from "./max-file-bytes.js";

/** Keys of a delta's header, behind the prefix of our own keys. */
export const HEADER_KEYS = { fingerprint: "fingerprint", tokens: "tokens", steps: "steps" } as const;

/** What every delta of a run must look like. */
export interface DeltaModel {
  readonly entries: ReadonlyMap<string, RealEntry>;
  readonly fingerprint: ModelFingerprint | undefined;
}

export async function deltaModel(
  state: ScratchFile,
  fingerprint: ModelFingerprint | undefined,
): Promise<DeltaModel> {
  const reader = await openSafetensors(await state.open());
  try {
    return { entries: realEntries(reader, "the global state"), fingerprint };
  } finally {
    await reader.close();
  }
}

/** Larger than any delta of this model. */
export function maxDeltaBytes({ entries }: DeltaModel): number {
  return maxFileBytes(entries);
}

/**
 * Transport errors pass through: they say nothing about the delta. Whatever is wrong with the file itself becomes a
 * reason to reject it.
 */
export async function inspectDelta(
  transport: Transport,
  surroundings: Surroundings,
  model: DeltaModel,
  request: { readonly revision: string; readonly delta: ListedDelta },
  signal?: AbortSignal,
): Promise<Inspection> {
  const { revision, delta } = request;
  const limit = maxDeltaBytes(model);
  if (delta.sizeBytes > limit) {
    const reason = `too_large: ${delta.sizeBytes} bytes, a delta of this model has at most ${limit}`;
    return { ok: false, reason, sha256: undefined };
  }
  const name = deltaCacheName(transport, delta, surroundings.hasher);
  const file =
    (await surroundings.scratch.find(name)) ??
    (await fetchFile(
      transport,
      surroundings,
      { revision, path: delta.path, name, sha256: undefined },
      signal,
    ));
  const { sha256 } = file;
  try {
    return { ok: true, sha256, ...(await examine(file, model, delta.path, surroundings.kernels)) };
  } catch (error) {
    if (!(error instanceof WireError || error instanceof FingerprintMismatch)) throw error;
    await surroundings.scratch.remove(name);
    return { ok: false, sha256, reason: reasonOf(error) };
  }
}

async function examine(
  file: ScratchFile,
  model: DeltaModel,
  path: string,
  kernels: OuterKernels | undefined,
) {
  const { reader, header } = await loadDelta(await file.open());
  try {
    checkHeader(header, model, path);
    const entries = onlyRealEntries(reader, "the delta");
    requireSameTensors({ name: "the global state", entries: model.entries }, { name: "the delta", entries });
    const { norm, isZero, ...rest } = await describeDelta(reader, { kernels });
    if (!rest.isFinite) {
      const message = "has values that are not finite";
      throw new WireError("non_finite", message, { tensor: rest.firstNonFinite });
    }
    const shards = header.extra.get(SHARDS_HEADER_KEY);
    return {
      baseOuterStep: header.baseOuterStep,
      localStep: header.localStep,
      tokens: count(header.extra.get(HEADER_KEYS.tokens)),
      steps: count(header.extra.get(HEADER_KEYS.steps)),
      norm,
      isZero,
      ...(shards === undefined ? {} : { shards }),
    };
  } finally {
    await reader.close();
  }
}

function checkHeader(header: DeltaHeader, { fingerprint }: DeltaModel, path: string): void {
  const parsed = parseDeltaPath(path);
  const found = parsed.kind === "delta" ? headerContradictions(header, parsed) : [];
  if (found.length > 0) throw new WireError("invalid_header", found.join("; "));
  const text = header.extra.get(HEADER_KEYS.fingerprint);
  if (text === undefined || fingerprint === undefined) return;
  const theirs = parseFingerprint(text);
  if (theirs === undefined) throw new FingerprintMismatch("no JSON object");
  const differences = fingerprintDifferences(fingerprint, theirs);
  if (differences.length === 0) return;
  throw new FingerprintMismatch(`made by another model: ${differences.join("; ")}`);
}

/** A count that a header states; nonsense counts as not stated. */
function count(text: string | undefined): number | undefined {
  if (text === undefined || !/^[0-9]{1,15}$/.test(text)) return undefined;
  return Number(text);
}

/** Stays in this file: it becomes a reason. */
class FingerprintMismatch extends Error {}

/** A code, and details behind a colon. The scratch file's name in a message helps nobody. */
function reasonOf(error: WireError | FingerprintMismatch): string {
  if (error instanceof FingerprintMismatch) return `fingerprint: ${error.message}`;
  const { code, message, file } = error;
  const text = file === undefined ? message : message.replaceAll(`${file}: `, "");
  return `${code.replace("wire.", "")}: ${text}`;
}
