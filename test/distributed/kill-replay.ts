// A run computed again from its first version, with the ledger that each commit published beside its version: no content
// twice, one fate for each delta, no gap in the versions, and the same bits.

import { createHash } from "node:crypto";
import { expect } from "vitest";
import type { Ledger } from "../../src/distributed/protocol/ledger.js";
import { LEDGER_PATH, parseLedger } from "../../src/distributed/protocol/ledger-text.js";
import type { Transport } from "../../src/distributed/transports/contract.js";
import {
  LATEST_MODEL_FILE,
  loadDelta,
  outerStep,
  parseVersionRecord,
  VERSION_RECORD_PATH,
  type VersionRecord,
} from "../../src/distributed/wire/index.js";
import { openSafetensors } from "../../src/formats/safetensors/index.js";
import type { TensorData } from "../../src/tensor/dtype.js";

import type { StepRange } from "./kill-steps.js";

const MAX_TEXT_BYTES = 1 << 28;
type State = ReadonlyMap<string, TensorData>;

export interface Published {
  readonly revision: string;
  readonly record: VersionRecord;
  readonly ledger: Ledger;
}

/** The first commit of each version. `revisions` oldest first. */
export async function publishedVersions(
  transport: Transport,
  revisions: readonly string[],
): Promise<readonly Published[]> {
  const versions: Published[] = [];
  for (const revision of revisions) {
    const text = await transport.read(revision, VERSION_RECORD_PATH, MAX_TEXT_BYTES);
    if (text === undefined) continue;
    const record = parseVersionRecord(text);
    const newest = versions.at(-1)?.record;
    const isNew = record.outerStep !== newest?.outerStep;
    // A restarted master claims the run: the version stays what it is.
    if (!isNew) {
      expect(record.extra.model_sha256).toBe(newest?.extra.model_sha256);
      expect(record.extra.ledger_sha256).toBe(newest?.extra.ledger_sha256);
      continue;
    }
    const ledgerText = (await transport.read(revision, LEDGER_PATH, MAX_TEXT_BYTES))!;
    expect(sha256(ledgerText)).toBe(record.extra.ledger_sha256);
    versions.push({ revision, record, ledger: parseLedger(ledgerText) });
  }
  return versions;
}

/** Checks and computes all versions. Returns which local steps are in which delta of the sum, as its header says. */
export async function replay(
  transport: Transport,
  versions: readonly Published[],
): Promise<ReadonlyMap<string, StepRange>> {
  expect(versions.map(({ record }) => record.outerStep)).toEqual(versions.map((_, i) => i));
  const [first, ...later] = versions;
  if (first === undefined) throw new Error("nothing was published");
  let state = await read(transport, first.revision, first.record.modelFile);
  let momentum: State | undefined;
  let entries: Ledger["entries"] = [];
  const contents = new Set<string>();
  const counted = new Map<string, StepRange>();
  for (const { revision, record, ledger } of later) {
    // What was decided stays decided.
    expect(ledger.decidedUpTo).toBeUndefined();
    expect(ledger.entries.slice(0, entries.length)).toEqual(entries);
    const added = ledger.entries.slice(entries.length);
    const deltas: { readonly state: State; readonly weight: number }[] = [];
    for (const { path, sha256: content, fate, outerStep: decidedIn, weight } of added) {
      expect({ path, fate, decidedIn }).toEqual({
        path,
        fate: expect.stringMatching(/^(applied|merged)$/),
        decidedIn: record.outerStep,
      });
      if (content === null || contents.has(content)) throw new Error(`${path} has been counted before`);
      contents.add(content);
      deltas.push({ state: await read(transport, revision, path, content), weight });
      counted.set(path, await stepsIn(transport, revision, path));
    }
    const { outer_lr: lr, outer_momentum: mu } = record.extra;
    const next = await step({ state, momentum, deltas, lr: Number(lr), mu: Number(mu) });
    const published = {
      state: await read(transport, revision, record.modelFile, String(record.extra.model_sha256)),
      momentum: await read(
        transport,
        revision,
        String(record.extra.momentum_file),
        String(record.extra.momentum_sha256),
      ),
    };
    if (bits(next.state) !== bits(published.state) || bits(next.momentum) !== bits(published.momentum))
      throw new Error(`version ${record.outerStep} is not what its ledger says`);
    ({ state, momentum } = next);
    entries = ledger.entries;
  }
  const head = await transport.head();
  expect(bits(await read(transport, head, LATEST_MODEL_FILE))).toBe(bits(state));
  const paths = entries.map(({ path }) => path);
  expect(new Set(paths).size).toBe(paths.length);
  const files = await transport.list(head, "nodes/");
  expect(files.map(({ path }) => path).sort()).toEqual([...paths].sort());
  return counted;
}

async function stepsIn(transport: Transport, revision: string, path: string): Promise<StepRange> {
  const { reader, header } = await loadDelta(await transport.open(revision, path));
  await reader.close();
  const to = Number(header.localStep);
  return { from: to - Number(header.extra.get("steps")), to };
}

async function step(inputs: {
  readonly state: State;
  readonly momentum: State | undefined;
  readonly deltas: readonly { readonly state: State; readonly weight: number }[];
  readonly lr: number;
  readonly mu: number;
}): Promise<{ readonly state: State; readonly momentum: State }> {
  const { deltas, ...rest } = inputs;
  const computed = outerStep({
    ...rest,
    deltas: deltas.map(({ state }) => state),
    weights: deltas.map(({ weight }) => weight),
  });
  const state = new Map(inputs.state);
  const momentum = new Map<string, TensorData>();
  for (const [name, { shape }] of computed.entries) {
    const parts = { state: [] as Buffer[], momentum: [] as Buffer[] };
    for await (const { state: weights, momentum: buffer } of computed.pieces(name)) {
      parts.state.push(Buffer.from(weights));
      parts.momentum.push(Buffer.from(new Uint8Array(buffer.buffer, buffer.byteOffset, buffer.byteLength)));
    }
    state.set(name, float32(shape, parts.state));
    momentum.set(name, float32(shape, parts.momentum));
  }
  return { state, momentum };
}

function float32(shape: readonly number[], parts: readonly Uint8Array[]): TensorData {
  const bytes = new Uint8Array(Buffer.concat(parts));
  return { dtype: "float32", shape, data: new Float32Array(bytes.buffer) };
}

/** A file's tensors; its content must have the hash. */
async function read(transport: Transport, revision: string, path: string, content?: string): Promise<State> {
  const source = await transport.open(revision, path);
  try {
    const bytes = (await source.read(0, source.sizeBytes)).slice();
    if (content !== undefined) expect(`${path} ${sha256(bytes)}`).toBe(`${path} ${content}`);
    const file = await openSafetensors({
      sizeBytes: bytes.byteLength,
      read: async (offset, length) => bytes.slice(offset, offset + length),
    });
    const state = new Map<string, TensorData>();
    for (const [name, { dtype, shape }] of file.entries) {
      expect(dtype).toBe("F32");
      state.set(name, float32(shape, [(await file.read(name)).bytes]));
    }
    await file.close();
    return state;
  } finally {
    await source.close?.();
  }
}

/** One text for one state, bit for bit. */
function bits(state: State): string {
  const hash = createHash("sha256");
  for (const [name, { shape, data }] of [...state].sort(([a], [b]) => (a < b ? -1 : 1))) {
    hash.update(`${name} ${JSON.stringify(shape)}\n`);
    hash.update(new Uint8Array(data.buffer, data.byteOffset, data.byteLength));
  }
  return hash.digest("hex");
}

const sha256 = (bytes: Uint8Array) => createHash("sha256").update(bytes).digest("hex");
