// `speedtronic aggregate`, and a run that trains and publishes at once, over the hub server of this package.

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { trainFromConfig } from "speedtronic";
import { expect, test, vi } from "vitest";
import { stringify } from "yaml";
import { parseVersionRecord } from "../../src/distributed/wire/index.js";
import { recordEvents, temporaryFolder, tinyConfig } from "../train/helpers.js";
import { REPO, readText, startHub } from "./fleet.js";
import { sampleText, scratchFolder, writeTinyConfig } from "./harness.js";

function runConfig(changes: { run?: object; distributed?: object } = {}) {
  return {
    ...tinyConfig(temporaryFolder(), { run: { max_steps: 12, seed: 3, ...changes.run } }),
    distributed: {
      enabled: true,
      role: "worker" as const,
      repo_id: REPO,
      node_id: "a",
      inner_steps: 3,
      poll_interval: 0.02,
      grace_seconds: 0,
      delta_upload_shutdown_timeout: 60,
      ...changes.distributed,
    },
  };
}

function configFile(changes: Parameters<typeof runConfig>[0] = {}): string {
  const path = join(temporaryFolder(), "run.yaml");
  writeFileSync(path, stringify(runConfig(changes)));
  return path;
}

test("L-22: begins a run, ends after the rounds asked for, and a later call drains", async () => {
  const hub = await startHub();
  const config = configFile({ distributed: { node_id: "chief" } });
  const begun = await hub.cli(["aggregate", "-c", config, "--drain"]);
  expect(begun).toMatchObject({ code: 0, err: "" });
  expect(begun.out).toContain("version 0 published\n");
  expect(begun.out).toMatch(/publishing as chief .*outer lr 0.7, momentum 0.9 \(from 0 over 50 rounds\)/);
  expect(begun.out).toMatch(/completed outer_step=0 published=0\n$/);
  const round = hub.cli(["aggregate", "-c", config, "--rounds", "1"]);
  const trained = trainFromConfig(runConfig());
  expect((await round).out).toMatch(/version 1 published: 1 delta.*completed outer_step=1 published=1\n$/s);
  expect((await trained).steps).toBe(12);
  const end = await hub.cli(["aggregate", "-c", config, "--drain"]);
  expect(end.code).toBe(0);
  const [, outerStep] = /completed outer_step=(\d+) published=\d+\n$/.exec(end.out) ?? [];
  const record = parseVersionRecord(await readText(hub.connect(), "global/step_count.json"));
  expect(record.outerStep).toBe(Number(outerStep));
});

test("L-31: a second master is refused with advice, unless it takes over", async () => {
  const hub = await startHub();
  await hub.cli(["aggregate", "-c", configFile({ distributed: { node_id: "one" } }), "--drain"]);
  const other = configFile({ distributed: { node_id: "two" } });
  const refused = await hub.cli(["aggregate", "-c", other, "--drain"]);
  expect(refused.code).toBe(6);
  expect(refused.err).toMatch(/fenced off: one \(term 1\) is the master.*--take-over/);
  const taken = await hub.cli(["aggregate", "-c", other, "--drain", "--take-over"]);
  expect(taken).toMatchObject({ code: 0 });
});

test("an unreachable hub is waited for only by a run that exists", async () => {
  const hub = await startHub();
  await hub.stop();
  const { code, err } = await hub.cli(["aggregate", "-c", configFile(), "--drain"]);
  expect(code).toBe(6);
  expect(err).toContain("lab/run");
  expect(err).not.toMatch(/\n\s+at /);
});

test("wrong numbers are usage errors", async () => {
  const { code, err } = await (await startHub()).cli(["aggregate", "-c", configFile(), "--rounds", "0"]);
  expect(code).toBe(2);
  expect(err).toContain("at least 1");
});

test("a master that trains publishes its own work and the others'", async () => {
  const hub = await startHub();
  const events = recordEvents();
  const master = trainFromConfig(
    runConfig({ run: { max_steps: 60 }, distributed: { role: "master", node_id: "chief" } }),
    { hooks: [events.hook] },
  );
  // A node that finds no repository ends at once; this one begins when there is a run.
  await vi.waitFor(() => expect(events.of("version_published")).toHaveLength(1), 20_000);
  const worker = trainFromConfig(runConfig({ run: { seed: 4 } }));
  await Promise.all([master, worker]);
  expect(events.of("version_published").length).toBeGreaterThan(1);
  expect(events.of("global_installed").length).toBeGreaterThan(0);
  expect(events.of("master_failed")).toEqual([]);
  const ledger = await readText(hub.connect(), "global/ledger.json");
  expect(ledger).toContain("nodes/chief/");
  expect(ledger).toContain("nodes/a/");
});

test("needs no more than the repository of a run that was set up: its configuration is there", async () => {
  const hub = await startHub();
  const folder = scratchFolder();
  const config = writeTinyConfig(
    folder,
    sampleText,
    `distributed: {repo_id: ${REPO}, inner_steps: 2, poll_interval: 0.02, commits_per_hour: 77, outer_lr: 0.5}\n`,
  );
  expect((await hub.cli(["init", REPO, "--config", config])).code).toBe(0);
  const set = ["--set", `run.output_dir=${join(folder, "chief")}`];
  const begun = await hub.cli(["aggregate", REPO, "--drain", ...set]);
  expect(begun).toMatchObject({ code: 0, err: "", out: expect.stringContaining("outer lr 0.5") });
  expect((await hub.cli(["aggregate", REPO, "--drain", ...set])).code).toBe(0);
  const node = [
    "--data",
    join(folder, "train.txt"),
    "--output-dir",
    join(folder, "node"),
    "--max-steps",
    "4",
  ];
  expect((await hub.cli(["join", REPO, ...node])).code).toBe(0);
  const round = await hub.cli(["aggregate", REPO, "--drain", ...set]);
  expect(round.out).toMatch(/completed outer_step=1 published=1\n$/);
  const status = await hub.cli(["status", REPO]);
  expect(status.out).toContain("all nodes together (budget of each: 77)");
  expect(JSON.parse((await hub.cli(["status", REPO, "--json"])).out).commits_per_hour).toBe(77);
});

test("the repository on the command line goes before the one in the file", async () => {
  const hub = await startHub();
  const config = configFile({ distributed: { repo_id: "lab/other" } });
  expect((await hub.cli(["aggregate", REPO, "-c", config, "--drain"])).code).toBe(0);
  expect(parseVersionRecord(await readText(hub.connect(), "global/step_count.json")).outerStep).toBe(0);
});

test("without a configuration anywhere it says what to do", async () => {
  const hub = await startHub();
  expect(await hub.cli(["aggregate", "--drain"])).toMatchObject({
    code: 2,
    err: expect.stringContaining("name the run's repository, or a configuration with --config"),
  });
  await hub.cli(["aggregate", "-c", configFile(), "--drain"]);
  expect(await hub.cli(["aggregate", REPO, "--drain"])).toMatchObject({
    code: 6,
    err: expect.stringMatching(/has no config\.yaml.*speedtronic aggregate --config.*speedtronic init/),
  });
  for (const command of [
    ["aggregate", "memory:x", "--drain"],
    ["init", "memory:x", "--config", "configs/smoke.yaml"],
  ])
    expect(await hub.cli(command)).toMatchObject({ code: 2, err: expect.stringMatching(/one process only/) });
});
