// What a master has on its own machine is a copy, checked or fetched again; and what a wild node can make it do.

import { createHash } from "node:crypto";
import { mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";

import { diskSurroundings } from "../../../src/distributed/node/aggregator-disk.node.js";
import { parseLedger } from "../../../src/distributed/protocol/ledger-text.js";
import { MAX_OPEN_PER_NODE } from "../../../src/distributed/protocol/turns.js";
import { writeSafetensors } from "../../../src/formats/safetensors/index.js";
import { deltaFile, FakeClock, FakeRepository, start } from "../aggregator/repository.js";
import { f32, MemorySink } from "../states.js";

const weights = [f32("w", 1, 2)];

async function send(repository: FakeRepository, nodeId: string, number: number, ...values: number[]) {
  const baseOuterStep = repository.record.outerStep;
  const header = { nodeId, localStep: number, baseOuterStep };
  repository.write({
    [`nodes/${nodeId}/delta_${number}.safetensors`]: await deltaFile(header, f32("w", ...values)),
  });
}

/** A run after one round, whose master kept its files in `folder`. */
async function runWithFolder() {
  const folder = await mkdtemp(join(tmpdir(), "speedtronic-limits-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  const repository = new FakeRepository();
  const surroundings = async () => ({
    ...(await diskSurroundings(folder, new FakeClock())),
    dateMs: () => Date.UTC(2026, 0, 1),
  });
  const first = await start({ repository, weights, surroundings: await surroundings() });
  await send(repository, "a", 1, 1, 1);
  await first.aggregator.poll();
  const files = await readdir(folder, { recursive: true, withFileTypes: true });
  const paths = files.filter((file) => file.isFile()).map(({ parentPath, name }) => join(parentPath, name));
  return { folder, repository, surroundings, paths };
}

it("L-71: a master whose own files are damaged fetches them again and goes on as if they were whole", async () => {
  const { repository, surroundings, paths } = await runWithFolder();
  const twin = await runWithFolder();
  expect(paths.length).toBeGreaterThanOrEqual(2);
  for (const path of paths) await writeFile(path, "no outer state at all");
  for (const run of [{ repository, surroundings }, twin]) {
    const { aggregator } = await start({
      repository: run.repository,
      surroundings: await run.surroundings(),
    });
    await send(run.repository, "a", 2, 1, 0);
    await aggregator.poll();
  }
  expect(repository.record.outerStep).toBe(2);
  expect(repository.files.get("global/latest.safetensors")).toEqual(
    twin.repository.files.get("global/latest.safetensors"),
  );
});

it("L-72: weights, momentum and ledger belong together: where one does not fit, nothing of them is used", async () => {
  const { repository, surroundings } = await runWithFolder();
  const sink = new MemorySink();
  await writeSafetensors(sink, [f32("w", 1, 2, 3)]);
  const record = JSON.parse(repository.text("global/step_count.json"));
  const momentum_sha256 = createHash("sha256").update(sink.bytes).digest("hex");
  // Momentum of another shape, with every hash made to fit.
  repository.write({
    [record.momentum_file]: sink.bytes,
    "global/step_count.json": JSON.stringify({ ...record, momentum_sha256 }),
  });
  const before = repository.files.get("global/latest.safetensors");
  const going = (async () => {
    const { aggregator } = await start({ repository, surroundings: await surroundings() });
    await send(repository, "a", 2, 1, 0);
    await aggregator.poll();
  })();
  await expect(going).rejects.toThrow(/momentum/);
  expect(repository.record.outerStep).toBe(1);
  expect(repository.files.get("global/latest.safetensors")).toBe(before);
});

it("L-73: outer lr and momentum stand in each version's record, and a master that changes them says so", async () => {
  const { repository, surroundings } = await runWithFolder();
  expect(repository.record.extra).toMatchObject({ outer_lr: 0.7, outer_momentum: 0.9 });
  const restart = async (settings: object) => {
    const { events } = await start({ repository, settings, surroundings: await surroundings() });
    return events.filter(([name]) => name === "master_settings_changed").map(([, payload]) => payload);
  };
  expect(await restart({})).toEqual([]);
  expect(await restart({ outerLr: 0.5 })).toEqual([
    {
      outer_step: 1,
      outer_lr: 0.5,
      previous_outer_lr: 0.7,
      outer_momentum: 0.9,
      previous_outer_momentum: 0.9,
    },
  ]);
  // A warm-up would have made version 1 without momentum.
  expect(await restart({ momentumWarmupRounds: 10 })).toMatchObject([
    { outer_momentum: 0, previous_outer_momentum: 0.9 },
  ]);
});

it("L-66: a file too large for a delta is refused from the listing, unread", async () => {
  const repository = new FakeRepository();
  const { aggregator } = await start({ repository, weights });
  await send(repository, "a", 1, 1, 1);
  repository.write({ "nodes/b/delta_1.safetensors": new Uint8Array(2 ** 21) });
  repository.calls.length = 0;
  await aggregator.poll();
  expect(repository.calls).toContain("open nodes/a/delta_1.safetensors");
  expect(repository.calls).not.toContain("open nodes/b/delta_1.safetensors");
  const entry = parseLedger(repository.files.get("global/ledger.json")!).entries.find(
    (e) => e.nodeId === "b",
  );
  expect(entry).toMatchObject({ fate: "rejected", reason: expect.stringContaining("too_large") });
});

/** Deltas 1 to `count` of one node; those up to `empty` hold nothing. */
async function sendMany(repository: FakeRepository, count: number, empty = 0) {
  const files: Record<string, Uint8Array> = {};
  for (let number = 1; number <= count; number++)
    files[`nodes/wild/delta_${number}.safetensors`] = await deltaFile(
      { nodeId: "wild", localStep: number, baseOuterStep: 0 },
      f32("w", number <= empty ? 0 : number, 0),
    );
  repository.write(files);
}

const fatesOf = (repository: FakeRepository, node: string) =>
  parseLedger(repository.files.get("global/ledger.json")!)
    .entries.filter(({ nodeId }) => nodeId === node)
    .map(({ fate, outerStep }) => `${fate} ${outerStep}`);

it("L-66: of a node's many deltas so many are looked into at a time, the oldest first, and nothing stays on disk", async () => {
  const repository = new FakeRepository();
  const { aggregator, folder } = await start({ repository, weights, settings: { merge: "tokens" } });
  await sendMany(repository, MAX_OPEN_PER_NODE + 20);
  await send(repository, "tame", 1, 1, 1);
  const opened = () =>
    repository.calls
      .filter((call) => call.startsWith("open nodes/wild/"))
      .map((call) => Number(/delta_([0-9]+)/.exec(call)![1]))
      .sort((a, b) => a - b);
  await aggregator.poll();
  expect(opened()).toEqual(Array.from({ length: MAX_OPEN_PER_NODE }, (_, i) => i + 1));
  expect(fatesOf(repository, "tame")).toEqual(["applied 1"]);
  const scratch = await readdir(folder, { recursive: true });
  expect(scratch.filter((name) => name.includes("deltas") && name.endsWith(".safetensors"))).toEqual([]);
  await aggregator.poll();
  expect(opened()).toHaveLength(MAX_OPEN_PER_NODE + 20);
  expect(fatesOf(repository, "wild").filter((fate) => fate === "merged 2")).toHaveLength(20);
});

it("L-66: a drain does not end before all of a node's many deltas had their turn", async () => {
  const repository = new FakeRepository();
  const { aggregator } = await start({ repository, weights, settings: { merge: "tokens" } });
  await sendMany(repository, MAX_OPEN_PER_NODE + 1);
  await aggregator.drain();
  expect(fatesOf(repository, "wild")).toHaveLength(MAX_OPEN_PER_NODE + 1);
});

it("L-66: deltas that no round can use hold up no others of their node", async () => {
  const repository = new FakeRepository();
  const { aggregator } = await start({ repository, weights, settings: { merge: "tokens" } });
  await sendMany(repository, MAX_OPEN_PER_NODE + 2, MAX_OPEN_PER_NODE + 1);
  for (let poll = 1; poll <= 3; poll++) await aggregator.poll();
  expect(fatesOf(repository, "wild").filter((fate) => fate === "applied 1")).toHaveLength(1);
});
