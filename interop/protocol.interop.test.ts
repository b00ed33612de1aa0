// One run of nodes of the real Python package and of ours, over our hub server: under its master, under ours with its
// rules and with our own, and handed over from its master to ours. Every published version is computed again from the
// deltas, by protocol_verify.py. Needs SPEEDTRONIC_PYTHON, which run-tests.sh sets.

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import { resolveConfig } from "../src/config/index.js";
import {
  Aggregator,
  diskSurroundings,
  type MergeSettings,
  parseDeltaPath,
} from "../src/distributed/index.node.js";
import { mergeSettings } from "../src/train/merge-settings.js";
import {
  Fleet,
  losses,
  type Member,
  mean,
  type PythonNode,
  piece,
  REPO,
  type Said,
} from "./protocol-fleet.js";

const python = process.env.SPEEDTRONIC_PYTHON ?? "";
const ROUNDS = 6;
/** Inner steps of Python nodes under a Python master, which mixes up deltas of one number: first common one is 1763. */
const INNER = { master: 41, worker: 43 } as const;
const COMMON_STEP = INNER.master * INNER.worker;

let fleet: Fleet | undefined;
afterEach(async () => {
  await fleet?.close();
  fleet = undefined;
});

interface Version {
  readonly version: number;
  readonly master: string | null;
  readonly loss: number;
  readonly latest_differs: number;
  readonly claim_differs?: number;
  readonly weights_differ?: number;
  readonly package_differs?: number | null;
  readonly differs?: number;
  readonly momentum_differs?: number;
  readonly lr?: number;
  readonly mu?: number;
  readonly deltas?: readonly { readonly path: string; readonly node: string; readonly base: number }[];
}

/** The Python side's account of all versions; `record` is that of a Python master. */
async function verify(
  node: PythonNode,
  settings: MergeSettings | undefined,
  master?: PythonNode,
): Promise<Version[]> {
  const text = join(fleet!.folder, "held-out.txt");
  writeFileSync(text, piece(20).slice(0, 8000));
  const file = join(fleet!.folder, "case.json");
  writeFileSync(
    file,
    JSON.stringify({
      repo: REPO,
      config: node.config,
      text,
      record: master?.record ?? null,
      policy: {
        merge: settings?.merge,
        outer_lr: settings?.outerLr,
        outer_momentum: settings?.outerMomentum,
        warmup_rounds: settings?.momentumWarmupRounds,
        staleness_discount: settings?.stalenessDiscount,
        clip_factor: settings?.clipFactor,
      },
    }),
  );
  const { versions, twice } = JSON.parse(await fleet!.python(node.id, "protocol_verify.py", file)) as {
    versions: Version[];
    twice: string[];
  };
  expect(twice).toEqual([]);
  return versions;
}

/** One line per version: how it was made, how far off the computation is, and its loss on text that nobody trained on. */
function show(title: string, versions: readonly Version[], members: readonly Member[]): void {
  const lines = versions.map(({ version, master, deltas = [], differs, mu, loss }) => {
    const counts = members.map(({ id }) => `${id} ${deltas.filter(({ node }) => node === id).length}`);
    const made = differs === undefined ? "" : `mu ${mu!.toFixed(3)}, off by ${differs.toExponential(1)}, `;
    return `  v${version} by ${master ?? "python"}: ${counts.join(", ")}; ${made}loss ${loss.toFixed(3)}`;
  });
  const ends = members.map((member) => {
    const [first, last] = firstAndLast(member);
    return `${member.id} ${first.toFixed(2)} to ${last.toFixed(2)}`;
  });
  process.stdout.write(`${title}\n${lines.join("\n")}\n  training losses: ${ends.join(", ")}\n`);
}

function firstAndLast(member: Member): [number, number] {
  const all = losses(member).map(({ loss }) => loss);
  return [mean(all.slice(0, 20)), mean(all.slice(-20))];
}

/** Numbers go up by one, every round is the mean and outer step of its deltas, and the model gets better. */
function expectSoundVersions(versions: readonly Version[]): void {
  const rounds = versions.filter(({ deltas }) => deltas !== undefined);
  expect(rounds.length).toBeGreaterThanOrEqual(5);
  expect(rounds.map(({ version }) => version)).toEqual(rounds.map((_, index) => index + 1));
  for (const {
    version,
    latest_differs,
    differs,
    momentum_differs,
    package_differs,
    weights_differ,
  } of versions) {
    expect(latest_differs, `global/latest of version ${version}`).toBe(0);
    for (const found of [differs, momentum_differs, package_differs, weights_differ])
      expect(found ?? 0, `version ${version}`).toBeLessThanOrEqual(1e-6);
  }
  expect(versions.at(-1)!.loss).toBeLessThan(versions[0]!.loss - 0.3);
}

/** Everyone's work is in some version that everyone (or a later one) has installed; the loss falls everywhere. */
function expectExchange(versions: readonly Version[], members: readonly Member[]): void {
  const reached = Math.min(...members.map((member) => member.installed()));
  for (const { id } of members) {
    const first = versions.find(({ deltas = [] }) => deltas.some(({ node }) => node === id))?.version;
    expect(first, `the first version with work of ${id}, all have ${reached}`).toBeLessThanOrEqual(reached);
  }
  for (const member of members) {
    const [first, last] = firstAndLast(member);
    expect(last, `loss of ${member.id}, ${first} at first`).toBeLessThan(first - 0.1);
  }
}

/** The package said nothing worse than information. */
function expectNoComplaints(nodes: readonly PythonNode[]): void {
  const isComplaint = (line: string) =>
    /\b(?:WARNING|ERROR|CRITICAL|Traceback|\w*(?:Warning|Error)\b)/.test(line);
  for (const { id, log } of nodes) {
    expect(log(), `the log of ${id}`).toMatch(/DumbDiLoCo started/);
    expect(log().split("\n").filter(isComplaint), `the log of ${id}`).toEqual([]);
  }
}

const eventsOf = ({ said }: Member, name: string): Said[] => said.filter(({ event }) => event === name);
/** Rounds of a Python master. */
const roundsOf = (master: PythonNode): number =>
  Number(eventsOf(master, "outer_step").at(-1)?.payload.outer_step ?? 0);

interface OurMaster {
  readonly aggregator: Aggregator;
  readonly settings: MergeSettings;
  /** Ends polling; whatever is left is merged. To be called when the nodes have stopped. */
  finish(): Promise<void>;
}

type Start = Pick<Parameters<typeof Aggregator.start>[0], "bootstrap" | "takeOver">;

async function startOurs(settings: MergeSettings, start: Start): Promise<OurMaster> {
  const aggregator = await Aggregator.start({
    ...start,
    transport: fleet!.transport("t-master"),
    surroundings: await diskSurroundings(join(fleet!.folder, "t-master")),
    settings,
    masterId: "t-master",
    pollIntervalMs: 300,
    onEvent: fleet!.wake,
  });
  const ending = new AbortController();
  const running = aggregator.runUntil({ signal: ending.signal });
  // Reported by finish(); until then it must not end the process.
  running.catch(fleet!.wake);
  const finish = async () => {
    ending.abort();
    await running;
    await aggregator.drain();
  };
  return { aggregator, settings, finish };
}

/** Every delta in the repository has one fate, and it is a good one unless there was nothing in it. */
async function expectFates({ aggregator }: OurMaster, nodes: readonly Member[]): Promise<void> {
  const hub = fleet!.transport("t-master");
  const files = await hub.list(await hub.head(), "nodes/");
  const deltas = files.map(({ path }) => parseDeltaPath(path)).filter(({ kind }) => kind === "delta");
  const { entries } = aggregator.run.ledger;
  expect(entries.map(({ path }) => path).sort()).toEqual(deltas.map(({ path }) => path).sort());
  for (const { path, fate, reason } of entries) {
    // Python uploads an empty delta where it installed at a boundary.
    if (reason !== "empty: every value is 0")
      expect(["applied", "merged"], `${path}: ${reason}`).toContain(fate);
  }
  expect(new Set(entries.map(({ nodeId }) => nodeId))).toEqual(new Set(nodes.map(({ id }) => id)));
}

const ownDefaults = () => mergeSettings(resolveConfig({ distributed: { grace_seconds: 5 } }));
/** But for a quorum, so that there is something to average. */
const pythonRules = (): MergeSettings => ({
  ...mergeSettings(resolveConfig({ compat: { outer_round: true }, distributed: { outer_momentum: 0.6 } })),
  quorum: 2,
  graceMs: 5000,
});

describe.runIf(python !== "")("a Python master", () => {
  it("merges a Python worker and two of ours", async () => {
    fleet = await Fleet.open(python, ["p-master", "p-worker", "t-one", "t-two"]);
    const master = fleet.startPython("p-master", { role: "master", innerSteps: INNER.master, data: 0 });
    await fleet.until("the first version", () => eventsOf(master, "train_start").length > 0);
    const worker = fleet.startPython("p-worker", { role: "worker", innerSteps: INNER.worker, data: 1 });
    await fleet.until("a Python worker", () => losses(worker).length > 0);
    const ours = [
      fleet.startNode("t-one", { innerSteps: 40, data: 2 }),
      fleet.startNode("t-two", { innerSteps: 30, data: 3 }),
    ];
    const members = [master, worker, ...ours];
    const processed = () =>
      (eventsOf(master, "outer_step").findLast(({ payload }) => payload.processed)?.payload.processed ??
        []) as [string, number, number][];
    await fleet.until("ours in training", () => ours.every((node) => losses(node).length > 0));
    const whenAllTrain = roundsOf(master);
    const isPresent = ({ id }: Member) => processed().filter(([node]) => node === id).length >= 2;
    await fleet.until(
      "rounds with work of everyone",
      () => roundsOf(master) >= whenAllTrain + ROUNDS && members.every(isPresent),
    );
    const reached = roundsOf(master);
    await fleet.until("its installation everywhere", () =>
      members.every(({ installed }) => installed() >= reached),
    );
    for (const node of [...ours, worker]) await node.stop();
    writeFileSync(join(master.record, "stop.json"), JSON.stringify({ stop_after_round: roundsOf(master) }));
    await master.stop();
    for (const node of [master, worker]) {
      expect(losses(node).length, `updates of ${node.id}`).toBeLessThan(COMMON_STEP);
    }

    const versions = await verify(master, undefined, master);
    show("Python master, Python worker, two workers of ours", versions, members);
    expectSoundVersions(versions);
    expectExchange(versions, members);
    expectNoComplaints([master, worker]);
    for (const node of ours) expect(eventsOf(node, "global_installed").length).toBeGreaterThanOrEqual(2);
  });
});

describe.runIf(python !== "").each([
  { rules: "the rules of Python", by: "python", settingsOf: pythonRules, isExact: true },
  { rules: "its own defaults", by: "ours", settingsOf: ownDefaults, isExact: false },
] as const)("our master with $rules", ({ rules, by, settingsOf, isExact }) => {
  it("merges two Python workers and one of ours", async () => {
    fleet = await Fleet.open(python, ["t-master", "p-one", "p-two", "t-one", "init"]);
    const weights = await fleet.initialWeights(by);
    const ours = await startOurs(settingsOf(), {
      bootstrap: { writeState: async (sink) => sink.write(weights) },
    });
    const { aggregator, settings } = ours;
    // The same numbers on both, which a Python master would mix up.
    const workers = [1, 2].map((data) =>
      fleet!.startPython(data === 1 ? "p-one" : "p-two", { role: "worker", innerSteps: 40, data }),
    );
    await fleet.until("the Python workers", () => workers.every((worker) => losses(worker).length > 0));
    const node = fleet.startNode("t-one", { innerSteps: 40, data: 3 });
    const members = [...workers, node];
    const countOf = ({ id }: Member) =>
      aggregator.run.ledger.entries.filter(({ nodeId, weight }) => nodeId === id && weight > 0).length;
    await fleet.until(
      "rounds with work of everyone",
      () => aggregator.outerStep >= ROUNDS && members.every((member) => countOf(member) >= 3),
    );
    const reached = aggregator.outerStep;
    await fleet.until("its installation everywhere", () =>
      members.every(({ installed }) => installed() >= reached),
    );
    for (const member of members) await member.stop();
    await ours.finish();

    const versions = await verify(workers[0]!, settings);
    show(`Our master with ${rules}, two Python workers, one worker of ours`, versions, members);
    expectSoundVersions(versions);
    expectExchange(versions, members);
    expectNoComplaints(workers);
    await expectFates(ours, members);
    // Not only to 1e-6: the package's own functions give the same bits.
    if (isExact)
      for (const { deltas, package_differs } of versions) if (deltas) expect(package_differs).toBe(0);
    expect(eventsOf(node, "global_installed").length).toBeGreaterThanOrEqual(3);
  });
});

describe.runIf(python !== "")("a run of a Python master", () => {
  it("is taken over by ours, while its workers go on", async () => {
    fleet = await Fleet.open(python, ["p-master", "p-worker", "t-one", "t-master"]);
    const master = fleet.startPython("p-master", { role: "master", innerSteps: INNER.master, data: 0 });
    await fleet.until("the first version", () => eventsOf(master, "train_start").length > 0);
    const worker = fleet.startPython("p-worker", { role: "worker", innerSteps: INNER.worker, data: 1 });
    await fleet.until("a Python worker", () => losses(worker).length > 0);
    const node = fleet.startNode("t-one", { innerSteps: 40, data: 2 });
    const workers = [worker, node];
    const processedBy = () =>
      (eventsOf(master, "outer_step").findLast(({ payload }) => payload.processed)?.payload.processed ??
        []) as [string, number][];
    await fleet.until("a version with work of everyone", () =>
      [master, ...workers].every(({ id }) => processedBy().some(([nodeId]) => nodeId === id)),
    );
    writeFileSync(join(master.record, "stop.json"), JSON.stringify({ stop_after_round: 3 }));
    await master.ended;
    const left = roundsOf(master);

    await expect(startOurs(ownDefaults(), {})).rejects.toThrow(
      /a master without an id \(Python\) published version/,
    );
    const ours = await startOurs(ownDefaults(), { takeOver: true });
    const { aggregator, settings } = ours;
    const adopted = aggregator.run.ledger.entries.filter(({ reason }) =>
      reason.startsWith("from the time of"),
    );
    const paths = new Set(adopted.map(({ path }) => path));
    for (const [nodeId, step] of processedBy())
      expect(paths).toContain(`nodes/${nodeId}/delta_${step}.safetensors`);
    const lost = adopted.length - processedBy().length;
    process.stdout.write(
      `Version ${left} taken over with ${adopted.length} deltas, ${lost} of them too late for it\n`,
    );

    await fleet.until("rounds of ours", () => aggregator.outerStep >= left + 5);
    const reached = aggregator.outerStep;
    await fleet.until("its installation", () => workers.every(({ installed }) => installed() >= reached));
    for (const member of workers) await member.stop();
    await ours.finish();

    const versions = await verify(master, settings, master);
    show("A Python master's run, taken over by ours", versions, [master, ...workers]);
    expectSoundVersions(versions);
    expectExchange(versions, workers);
    expectNoComplaints([master, worker]);
    await expectFates(ours, [master, ...workers]);
    const claims = versions.filter(({ claim_differs }) => claim_differs !== undefined);
    expect(claims).toMatchObject([{ version: left, master: "t-master", claim_differs: 0 }]);
    const later = versions.filter(({ version, deltas }) => version > left && deltas !== undefined);
    expect(later.flatMap(({ deltas }) => deltas!).filter(({ path }) => paths.has(path))).toEqual([]);
  });
});
