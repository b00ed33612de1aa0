// The wire format against the Python package's own functions on the same files: pseudo-gradient, mean and outer step
// bit for bit, records byte for byte, and a round of its master over what we published.
// Needs SPEEDTRONIC_PYTHON, which run-tests.sh sets.

import { execFile } from "node:child_process";
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import {
  ALGORITHM,
  averageDeltas,
  compareDeltaPaths,
  computePseudoGradient,
  type DeltaPath,
  deltaPath,
  describeDelta,
  encodePythonJson,
  encodeVersionRecord,
  formatUpdatedAt,
  type JsonValue,
  loadDeltaFile,
  parseDeltaPath,
  parseVersionRecord,
  saveDeltaFile,
  versionedModelFile,
  writeOuterStep,
} from "../src/distributed/index.node.js";
import {
  loadSafetensors,
  openSafetensorsFile,
  type SafetensorsReader,
  type SafetensorsTensor,
  saveSafetensors,
  saveSafetensorsFile,
  type TensorStream,
  tensorView,
} from "../src/formats/safetensors/index.node.js";
import { writeStreamAtomically } from "../src/util/atomic-file.node.js";

const outer = { lr: 0.7, mu: 0.9 };

let scratch = "";
beforeAll(async () => {
  scratch = await mkdtemp(join(tmpdir(), "speedtronic-wire-"));
  await python("publish", join(scratch, "repo"), join(scratch, "work"));
});
const open: SafetensorsReader[] = [];
afterAll(async () => {
  await Promise.all(open.map((reader) => reader.close()));
  await rm(scratch, { recursive: true, force: true });
});

async function python(...args: string[]): Promise<string> {
  const program = process.env.SPEEDTRONIC_PYTHON;
  if (!program) throw new Error("SPEEDTRONIC_PYTHON is not set; run these tests with interop/run-tests.sh");
  const script = fileURLToPath(new URL("wire_peer.py", import.meta.url));
  const { stdout } = await promisify(execFile)(program, [script, ...args], { maxBuffer: 2 ** 26 });
  return stdout;
}

const repo = (path = "") => join(scratch, "repo", path);
const work = (name: string) => join(scratch, "work", `${name}.safetensors`);

async function read(path: string): Promise<SafetensorsReader> {
  const reader = await openSafetensorsFile(path);
  open.push(reader);
  return reader;
}

/** Whole files as text, so that a difference names its tensor. Float64 is compared with a tolerance elsewhere. */
async function bitsOf(path: string, { wide = false } = {}): Promise<Record<string, string>> {
  const show = ({ dtype, shape, bytes }: SafetensorsTensor) =>
    `${dtype} [${shape}] ${Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("base64")}`;
  const tensors = [...(await loadSafetensors(path))].filter(([, { dtype }]) => wide || dtype !== "F64");
  return Object.fromEntries(tensors.map(([name, tensor]) => [name, show(tensor)]));
}

async function saved(name: string, streams: TensorStream[]): Promise<string> {
  const path = join(scratch, "ours", `${name}.safetensors`);
  await saveSafetensorsFile(path, streams);
  return path;
}

/** One outer step into two files. */
async function step(
  name: string,
  state: SafetensorsReader,
  momentum: SafetensorsReader | undefined,
  deltas: SafetensorsReader[],
) {
  const paths = [`${name}-state`, `${name}-momentum`].map((file) =>
    join(scratch, "ours", `${file}.safetensors`),
  );
  const [statePath, momentumPath] = paths as [string, string];
  await mkdir(join(scratch, "ours"), { recursive: true });
  await writeStreamAtomically(statePath, (stateSink) =>
    writeStreamAtomically(momentumPath, async (momentumSink) => {
      await writeOuterStep(
        { state, momentum, deltas, ...outer },
        { state: stateSink, momentum: momentumSink },
      );
    }),
  );
  return { statePath, momentumPath };
}

/** The deltas in the repository, in the order of the mean. */
async function listDeltas(): Promise<DeltaPath[]> {
  const files = await readdir(repo(), { recursive: true });
  const found = files.map((file) => parseDeltaPath(file.replaceAll("\\", "/")));
  return found.filter((path) => path.kind === "delta").sort(compareDeltaPaths);
}

async function loadDeltas(paths: readonly DeltaPath[]) {
  const deltas = await Promise.all(paths.map(({ path }) => loadDeltaFile(repo(path))));
  open.push(...deltas.map(({ reader }) => reader));
  return deltas;
}

describe("what Python publishes", () => {
  it("its version record is read, and written again byte for byte", async () => {
    const text = await readFile(repo("global/step_count.json"), "utf8");
    const record = parseVersionRecord(text);
    expect(record).toMatchObject({ outerStep: 0, isBootstrap: true, algorithm: ALGORITHM, extra: {} });
    expect(encodeVersionRecord(record)).toBe(text);
  });

  it("its deltas are read, and each is the pseudo-gradient that we compute, bit for bit", async () => {
    const paths = await listDeltas();
    const deltas = await loadDeltas(paths);
    expect(paths.map(({ path }) => path)).toEqual(
      [0, 1, 2].map((i) => `nodes/worker-${i}/delta_50${i}.safetensors`),
    );
    for (const [i, { header, reader }] of deltas.entries()) {
      const path = paths[i]!;
      expect(header).toEqual({
        nodeId: path.nodeId,
        localStep: path.localStep,
        baseOuterStep: i === 0 ? -1 : 0,
        algorithm: ALGORITHM,
        extra: new Map(),
      });
      const streams = computePseudoGradient(await read(work("baseline")), await read(work(path.nodeId)));
      expect(await bitsOf(await saved(path.nodeId, streams))).toEqual(await bitsOf(repo(path.path)));
      expect(await describeDelta(reader)).toMatchObject({ isZero: false, isFinite: true });
    }
  });

  it("the mean is its mean, bit for bit", async () => {
    const deltas = await loadDeltas(await listDeltas());
    const path = await saved("mean", averageDeltas(deltas.map(({ reader }) => reader)));
    const bits = await bitsOf(path);
    expect(Object.keys(bits)).toHaveLength(9);
    expect(bits).toEqual(await bitsOf(work("mean")));
  });

  it("three outer steps over all dtypes are its steps, bit for bit; float64 to its last digits", async () => {
    const deltas = (await loadDeltas(await listDeltas())).map(({ reader }) => reader);
    let state = await read(work("baseline"));
    let momentum: SafetensorsReader | undefined;
    for (const round of [1, 2, 3]) {
      const { statePath, momentumPath } = await step(`round-${round}`, state, momentum, deltas);
      expect(await bitsOf(momentumPath)).toEqual(await bitsOf(work(`momentum_${round}`)));
      expect(await bitsOf(statePath)).toEqual(await bitsOf(work(`state_${round}`)));
      [state, momentum] = [await read(statePath), await read(momentumPath)];
      const wide = await Promise.all([statePath, work(`state_${round}`)].map(float64Of));
      const worst = Math.max(...wide[0]!.map((x, i) => Math.abs(x - wide[1]![i]!) / (1 + Math.abs(x))));
      expect(worst).toBeLessThan(1e-15);
    }
  });
});

async function float64Of(path: string): Promise<Float64Array> {
  const { dtype, ...rest } = (await loadSafetensors(path)).get("double")!;
  if (dtype !== "F64") throw new Error(`double is ${dtype}`);
  return tensorView({ dtype, ...rest });
}

it("what we publish is read by Python's master, and its round is ours, bit for bit", async () => {
  const ours = (path = "") => join(scratch, "our-repo", path);
  const state = await read(work("baseline"));
  // Float32 alone: one pass over two files, as in a real run.
  const tensors = await loadSafetensors(work("baseline"));
  const plain = (all: typeof tensors) =>
    new Map([...all].filter(([, { dtype }]) => ["F32", "I64", "BOOL"].includes(dtype)));
  expect(state.entries.size).toBe(tensors.size);
  await saveSafetensors(plain(tensors), ours(versionedModelFile(41)));
  const record = {
    outerStep: 41,
    modelFile: versionedModelFile(41),
    updatedAt: formatUpdatedAt(Date.UTC(2026, 2, 4, 5, 6, 7, 891)),
    algorithm: ALGORITHM,
    optimizer: undefined,
    isBootstrap: false,
    extra: { parent: 40, leases: { "a b": [1, 2] }, sha256: "é" },
  };
  await writeFile(ours("global/step_count.json"), encodeVersionRecord(record));
  const paths: string[] = [];
  for (const i of [2, 0, 1]) {
    const current = plain(await loadSafetensors(work(`worker-${i}`)));
    const path = deltaPath(`node-${i}`, 500_000_000 + i);
    const header = { nodeId: `node-${i}`, localStep: 500, baseOuterStep: 41, extra: { tokens: "2048" } };
    await saveDeltaFile(ours(path), computePseudoGradient(plain(tensors), current), header);
    paths.push(path);
  }
  const deltas = await Promise.all(paths.sort().map((path) => read(ours(path))));
  const global = await read(ours(versionedModelFile(41)));
  const { statePath } = await step("our-round", global, undefined, deltas);

  const found = JSON.parse(await python("round", ours(), join(scratch, "python-master"))) as Record<
    string,
    unknown
  >;
  expect(found).toEqual({
    found: {
      outer_step: 41,
      updated_at: "2026-03-04T05:06:07.891000+00:00",
      model_file: versionedModelFile(41),
    },
    parsed: Object.fromEntries(paths.map((path, i) => [path, [`node-${i}`, 500_000_000 + i]])),
    headers: Object.fromEntries(
      paths.map((path, i) => [
        path,
        {
          algorithm: ALGORITHM,
          base_outer_step: "41",
          local_step: "500",
          node_id: `node-${i}`,
          "speedtronic.tokens": "2048",
        },
      ]),
    ),
    outer_step: 42,
    ledger: paths.map((_, i) => [`node-${i}`, 500_000_000 + i, 41]),
    warnings: [],
  });
  const theirs = ours("global/latest.safetensors");
  // Neither side has metadata in a state's header, so that even the files are the same.
  expect(Buffer.compare(await readFile(statePath), await readFile(theirs))).toBe(0);
  const next = parseVersionRecord(await readFile(ours("global/step_count.json")));
  expect(next).toMatchObject({
    outerStep: 42,
    modelFile: "global/latest.safetensors",
    optimizer: "nesterov_sgd",
  });
});

it("JSON of every kind has Python's bytes", async () => {
  const numbers = Array.from({ length: 400 }, (_, i) => Math.sin(i) * 10 ** ((i % 60) - 30));
  const value: JsonValue = {
    numbers: [...numbers, 0, 1e-4, 9.999e-5, 1e15, 1e16, 123456789012345680000, 2 ** 53, -(2 ** 53), 5e-324],
    "é\u{1f600}": 'text \u0000\u001f\u007f\u2028"\\/\b\f\n\r\t',
    "\uff5e": {},
    "\u{10000}": [],
    nested: [[{ a: [null, true, false] }]],
  };
  const path = join(scratch, "value.json");
  const text = `${encodePythonJson(value)}\n`;
  await writeFile(path, text);
  await python("dumps", path);
  expect(await readFile(path, "utf8")).toBe(text);
});
