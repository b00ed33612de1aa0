// `speedtronic status`: one run from its set-up to its last update, on a terminal, piped, as JSON, and watched.

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { ORDERED_FROM } from "../../src/distributed/protocol/numbers.js";
import { meetings, REPO, startAggregator, startHub } from "./fleet.js";
import { cli, sampleText, scratchFolder, writeTinyConfig } from "./harness.js";

const distributed = "distributed: {inner_steps: 2, poll_interval: 0.02, delta_upload_shutdown_timeout: 60}\n";

/** init, two nodes that join, one aggregator; nothing waits any more. */
async function trainedRun(kind: keyof typeof meetings) {
  const fleet = await meetings[kind]();
  const { repo } = fleet;
  const folder = scratchFolder();
  const config = writeTinyConfig(folder, sampleText, distributed);
  writeFileSync(join(folder, "own.txt"), sampleText);
  await fleet.cli(["init", repo, "--config", config]);
  const aggregator = await startAggregator(fleet.connect(), config);
  const nodes = ["attic", "cellar"].map(async (nodeId) => {
    const args = ["--data", join(folder, "own.txt"), "--node-id", nodeId, "-n", "4", "-s", "run.threads=1"];
    return fleet.cli(["join", repo, "-o", join(folder, nodeId), ...args]);
  });
  for (const node of nodes) expect(await node).toMatchObject({ code: 0 });
  return { fleet, repo, aggregator };
}

describe("status", () => {
  it.each(["hub", "folder"] as const)(
    "follows a run from init over join and aggregation (%s)",
    async (kind) => {
      const { fleet, repo, aggregator } = await trainedRun(kind);
      const before = await fleet.cli(["status", repo]);
      expect(before).toMatchObject({ code: 0, err: "" });
      expect(before.out).toMatch(
        /^(?:lab\/run at http:\/\/127\.0\.0\.1:\d+|file:\S+)\nversion +0, published \S+ ago\n/,
      );
      expect(before.out).toMatch(/\nwaiting +[2-4] deltas of 2 nodes, [\d.]+ kB\n/);
      expect(before.out).toMatch(/\nattic +#[12] +0 +0 +(?:256|512) +waiting +[12] +0\n/);
      await aggregator.drain();
      const { code, out, err } = await fleet.cli(["status", repo]);
      expect({ code, err }).toEqual({ code: 0, err: "" });
      expect(out).toMatch(/\nversion +1, published \S+ ago, from [2-4] deltas\n/);
      expect(out).toMatch(/\nmaster +master, term 1\nouter step +lr 0\.7, momentum 0\.5\nwaiting +nothing\n/);
      const commits = /\ncommits +\d+ in the last hour, all nodes together \(budget of each: 100\)\n/;
      expect(commits.test(out)).toBe(kind === "hub");
      expect(out).toMatch(/\nnode +last delta +base +behind +tokens +fate +waiting +counted\n/);
      expect(out).toMatch(/\ncellar +#[12] +0 +1 +(?:256|512) +(?:applied|merged) in 1 +0 +[12]\n/);
      expect(out).toMatch(/\nversion +node +delta +fate +weight\n/);

      const json = JSON.parse((await fleet.cli(["status", repo, "--json"])).out);
      expect(json).toMatchObject({
        repository: out.split("\n")[0],
        version: { outer_step: 1, master_id: "master", master_term: 1, has_ledger: true, outer_lr: 0.7 },
        members: [
          {
            node_id: "attic",
            staleness: 1,
            waiting: 0,
            last_delta: { base_outer_step: 0, tokens: expect.any(Number), steps: expect.any(Number) },
          },
          { node_id: "cellar", staleness: 1, waiting: 0, last_delta: { base_outer_step: 0, outer_step: 1 } },
        ],
        waiting: [],
        notes: [],
      });
      // The repository, its set-up, two versions, and one for every update.
      const updates = json.fates.length;
      expect(json.commits_last_hour).toBe(kind === "hub" ? updates + 4 : null);
      const verdict = await fleet.cli(["verify", repo]);
      expect(verdict).toMatchObject({ code: 0, err: "" });
      expect(verdict.out).toContain(`\nversion 1  verified from ${updates} deltas\n`);
    },
  );

  it("fits 80 columns of a terminal", async () => {
    const { fleet, repo, aggregator } = await trainedRun("hub");
    await aggregator.drain();
    const { out } = await fleet.cli(["status", repo], { isTerminal: true, env: { NO_COLOR: "1" } });
    for (const line of out.split("\n")) expect([...line].length).toBeLessThanOrEqual(80);
    expect(out).toContain("attic");
  });

  it("works before anything happened, and on the run of a Python master", async () => {
    const hub = await startHub();
    const transport = hub.connect();
    await transport.create();
    const empty = await hub.cli(["status", REPO]);
    expect(empty).toMatchObject({ code: 0, err: "" });
    expect(empty.out).toMatch(/\nversion +none yet: nobody has published/);
    expect(empty.out).toContain("\nno node has sent anything yet\n");
    const content = (text: string) => {
      const bytes = new TextEncoder().encode(text);
      return {
        sizeBytes: bytes.byteLength,
        async *chunks() {
          yield bytes;
        },
      };
    };
    await transport.commit({
      parent: await transport.head(),
      message: "python",
      operations: [
        {
          kind: "put",
          path: "global/step_count.json",
          content: content('{"outer_step": 3, "updated_at": "2026-01-01T00:00:00+00:00"}'),
        },
        { kind: "put", path: "nodes/py/delta_500.safetensors", content: content("no safetensors") },
      ],
    });
    const { code, out } = await hub.cli(["status", REPO]);
    expect(code).toBe(0);
    expect(out).toMatch(/\nmaster +without a name \(Python\)\n/);
    expect(out).toMatch(/\nledger +none/);
    expect(out).toMatch(/\npy +step 500 +- +- +unknown/);
    expect(out).toContain("note: nodes/py/delta_500.safetensors cannot be read as a delta");
  });

  it("keeps control characters of strangers away from the terminal", async () => {
    const hub = await startHub();
    const transport = hub.connect();
    await transport.create();
    const bytes = new TextEncoder().encode(
      '{"outer_step": 1, "updated_at": "\\u001b[2J", "master_id": "\\u001b[2Jx", "master_term": 1}',
    );
    await transport.commit({
      parent: await transport.head(),
      message: "odd",
      operations: [
        {
          kind: "put",
          path: "global/step_count.json",
          content: {
            sizeBytes: bytes.byteLength,
            async *chunks() {
              yield bytes;
            },
          },
        },
      ],
    });
    const { out } = await hub.cli(["status", REPO]);
    expect(out).not.toContain("\x1b");
    expect(out).toContain("published at an unknown time");
  });

  it("ends with 6 where nobody answers or nothing is there, and with 2 for wrong flags", async () => {
    const hub = await startHub();
    expect(await hub.cli(["status", REPO])).toMatchObject({ code: 6, out: "" });
    expect(await cli(["status", REPO], { env: { HF_ENDPOINT: "http://127.0.0.1:9" } })).toMatchObject({
      code: 6,
      out: "",
    });
    expect(await hub.cli(["status"])).toMatchObject({ code: 2 });
    expect(await hub.cli(["status", "nonsense"])).toMatchObject({
      code: 2,
      err: expect.stringMatching(/org\/name/),
    });
    expect(await hub.cli(["status", REPO, "--watch", "0"])).toMatchObject({
      code: 2,
      err: expect.stringMatching(/number of seconds above 0/),
    });
  });
});

describe("status --watch", () => {
  it("prints a line of JSON for every change, waits while the hub is away, and ends with 0", async () => {
    const hub = await startHub();
    const transport = hub.connect();
    await transport.create();
    const lines: string[] = [];
    let change: Promise<unknown> | undefined;
    const { code, out } = await hub.cli(["status", REPO, "--watch", "0.02", "--json"], {
      onOut: (text) => {
        lines.push(text);
        if (lines.length > 1) process.emit("SIGINT");
        change ??= transport.head().then((parent) => {
          const bytes = new TextEncoder().encode("x");
          const content = {
            sizeBytes: 1,
            async *chunks() {
              yield bytes;
            },
          };
          const path = `nodes/a/delta_${ORDERED_FROM}.safetensors`;
          return transport.commit({ parent, message: "x", operations: [{ kind: "put", path, content }] });
        });
      },
    });
    await change;
    expect(code).toBe(0);
    const reports = out
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line));
    expect(reports.map(({ members }) => members.length)).toEqual([0, 1]);
  });

  it("redraws a terminal, and says that the hub is away", async () => {
    const hub = await startHub();
    await hub.connect().create();
    let stopping: Promise<unknown> | undefined;
    const { code, out } = await hub.cli(["status", REPO, "--watch", "0.02"], {
      isTerminal: true,
      env: { NO_COLOR: "1" },
      onOut: (text) => {
        stopping ??= hub.stop();
        if (text.includes("next look in")) process.emit("SIGINT");
      },
    });
    await stopping;
    expect(code).toBe(0);
    expect(out.startsWith("\x1b[H\x1b[2Jlab/run at ")).toBe(true);
    expect(out).toMatch(/; next look in \d+ s\n$/);
  });
});
