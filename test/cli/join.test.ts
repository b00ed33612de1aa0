// `speedtronic join`: from a repository alone to a node that trains, and what keeps it from doing so.

import { existsSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import type { Transport } from "../../src/distributed/index.js";
import { defaultOutputDir } from "../../src/train/fleet/join-run.js";
import { REPO, readText, startAggregator, startHub, type TestHub } from "./fleet.js";
import { cli, sampleText, scratchFolder, writeTinyConfig } from "./harness.js";

const distributed = "distributed: {inner_steps: 2, poll_interval: 0.02, delta_upload_shutdown_timeout: 60}\n";

/** A hub with a run of the tiny model, which trains on text. */
async function preparedRun(lines = "") {
  const hub = await startHub();
  const folder = scratchFolder();
  const config = writeTinyConfig(folder, sampleText, distributed + lines);
  expect(await hub.cli(["init", REPO, "--config", config])).toMatchObject({ code: 0, err: "" });
  const text = join(folder, "own.txt");
  writeFileSync(text, sampleText);
  const args = (...more: string[]) => [
    "join",
    REPO,
    "--data",
    text,
    "--output-dir",
    join(folder, "node"),
    "--set",
    "run.threads=1",
    ...more,
  ];
  return { hub, folder, config, text, args };
}

async function putText(transport: Transport, path: string, text: string): Promise<void> {
  const bytes = new TextEncoder().encode(text);
  const content = {
    sizeBytes: bytes.byteLength,
    async *chunks() {
      yield bytes;
    },
  };
  const parent = await transport.head();
  await transport.commit({ parent, message: "test", operations: [{ kind: "put", path, content }] });
}

async function deltasOf(hub: TestHub): Promise<string[]> {
  const transport = hub.connect();
  return (await transport.list(await transport.head(), "nodes/")).map(({ path }) => path);
}

describe("join", () => {
  it("trains from the repository alone, sends what it learned, and goes on where it stopped", async () => {
    const { hub, folder, config, text, args } = await preparedRun();
    await startAggregator(hub.connect(), config);
    const first = await hub.cli(args("--max-steps", "4"));
    expect(first.code).toBe(0);
    const nodeId = /as node (node-[0-9a-f]{8}), in /.exec(first.out)?.[1];
    expect(first.out).toContain(`joins lab/run at ${hub.endpoint} (version 0) as node ${nodeId}`);
    expect(first.err).toBe("");
    expect(first.out).toContain(`data: 4,000 tokens in ${text}\n`);
    expect(first.out).toMatch(/\ncompleted steps=4 samples=16 tokens=512 loss=\d/);
    const sent = await deltasOf(hub);
    expect(sent.length).toBeGreaterThan(0);
    for (const path of sent) expect(path.startsWith(`nodes/${nodeId}/`)).toBe(true);
    expect(readdirSync(join(folder, "node", "checkpoints"))).toContain("step-000000000004");
    const second = await hub.cli(args("--max-steps", "6"));
    expect(second.out).toContain(`goes on in lab/run at ${hub.endpoint} (version 0) as node ${nodeId}`);
    expect(second.out).toMatch(/\ncompleted steps=6 samples=24 tokens=768 loss=\d/);
  });

  it("takes only what is shared from the repository: its paths, addresses and names have no effect", async () => {
    const { hub, folder, args } = await preparedRun();
    const evil = join(folder, "evil");
    const text = (await readText(hub.connect(), "config.yaml"))
      .replace(/^logging:\n/m, `logging:\n  file: ${evil}\n`)
      .replace(
        /^distributed:\n/m,
        `distributed:\n  endpoint: http://127.0.0.1:9\n  node_id: evil\n  state_dir: ${evil}\n`,
      );
    await putText(hub.connect(), "config.yaml", text);
    const { code, out, err } = await hub.cli(args("--node-id", "good", "--max-steps", "2"));
    expect({ code, out }).toEqual({ code: 0, out: expect.stringContaining("as node good, in ") });
    for (const path of [
      "logging.file",
      "distributed.endpoint",
      "distributed.node_id",
      "distributed.state_dir",
    ])
      expect(err).toContain(`warning: ${path} in the run's configuration has no effect`);
    expect(existsSync(evil)).toBe(false);
    expect(readdirSync(join(folder, "node", ".speedtronic", "diloco"))).toEqual(["good"]);
    expect((await deltasOf(hub)).every((path) => path.startsWith("nodes/good/"))).toBe(true);
  });

  it("trains on random tokens where the run does", async () => {
    const hub = await startHub();
    const folder = scratchFolder();
    const config = writeTinyConfig(folder, sampleText, distributed);
    const set = ["--set", "data.text_path=null", "--set", "data.num_tokens=50"];
    await hub.cli(["init", REPO, "--config", config, ...set]);
    const { code, out } = await hub.cli([
      "join",
      REPO,
      "-o",
      join(folder, "node"),
      "-n",
      "2",
      "-s",
      "run.threads=1",
    ]);
    expect({ code, out }).toEqual({
      code: 0,
      out: expect.stringContaining("data: 50 samples of random tokens"),
    });
  });

  it("checks the data before anything is trained", async () => {
    const { hub, folder, args } = await preparedRun();
    expect(await hub.cli(["join", REPO, "-o", join(folder, "node")])).toMatchObject({
      code: 2,
      err: expect.stringMatching(/trains on text, and each node brings its own: name it with --data/),
    });
    expect(await hub.cli(args("--data", join(folder, "none.txt")))).toMatchObject({
      code: 3,
      err: expect.stringMatching(/none\.txt" does not exist/),
    });
    writeFileSync(join(folder, "empty.txt"), "");
    expect(await hub.cli(args("--data", join(folder, "empty.txt")))).toMatchObject({
      code: 3,
      err: expect.stringMatching(/is empty/),
    });
    expect(existsSync(join(folder, "node"))).toBe(false);
  });

  it("refuses to train another model, field by field", async () => {
    const { hub, args } = await preparedRun();
    expect(await hub.cli(args("--set", "model.n_head=4"))).toMatchObject({
      code: 6,
      err: expect.stringMatching(
        /the model is not the one of fingerprint\.json of lab\/run.*n_head is 2, this run has 4/,
      ),
    });
    expect(await deltasOf(hub)).toEqual([]);
    const transport = hub.connect();
    await putText(transport, "fingerprint.json", '{"format": 2}');
    expect(await hub.cli(args())).toMatchObject({
      code: 6,
      err: expect.stringMatching(/not the fingerprint of a run: format is 2/),
    });
  });

  it("says what is missing in the repository, and what cannot be reached", async () => {
    const hub = await startHub();
    expect(await hub.cli(["join", REPO])).toMatchObject({ code: 6, err: expect.stringMatching(/lab\/run/) });
    const transport = hub.connect();
    await transport.create();
    expect(await hub.cli(["join", REPO])).toMatchObject({
      code: 6,
      err: expect.stringMatching(/has no config\.yaml; set the run up with speedtronic init/),
    });
    await putText(transport, "global/step_count.json", '{"outer_step": 7}');
    expect(await hub.cli(["join", REPO])).toMatchObject({
      code: 6,
      err: expect.stringMatching(/a run is there \(version 7\).*speedtronic train/),
    });
    await putText(transport, "config.yaml", "model: [");
    expect(await hub.cli(["join", REPO])).toMatchObject({
      code: 2,
      err: expect.stringMatching(/config\.yaml of lab\/run at /),
    });
    expect(await cli(["join", REPO], { env: { HF_ENDPOINT: "http://127.0.0.1:9" } })).toMatchObject({
      code: 6,
    });
    expect(await cli(["join"])).toMatchObject({ code: 2, err: expect.stringMatching(/argument 'repo'/) });
    expect(await hub.cli(["join", REPO, "--node-id", "a/b"])).toMatchObject({ code: 2 });
  });

  it.each([
    ["lab/whale", join("runs", "whale")],
    ["file:/mnt/shared/whale/", join("runs", "whale")],
    ["file:C:\\shared\\my whale", join("runs", "my-whale")],
    ["file:..", join("runs", "file")],
  ])("writes the run of %s to %s", (repo, folder) => {
    expect(defaultOutputDir(repo)).toBe(folder);
  });
});
