// `speedtronic init`: what gets into the repository, what never does, and what is refused.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { parseConfigText, resolveConfig } from "speedtronic";
import { describe, expect, it } from "vitest";
import { sections } from "../../src/config/sections/index.js";
import { OWN_KEYS } from "../../src/train/fleet/own-keys.js";
import { writeTokens } from "../hub-server/harness.js";
import { meetings, REPO, readText, startAggregator, startHub } from "./fleet.js";
import { cli, sampleText, scratchFolder, writeTinyConfig } from "./harness.js";

const secret = `hf_${"s".repeat(30)}`;

function tiny(lines = ""): { folder: string; config: string } {
  const folder = scratchFolder();
  return { folder, config: writeTinyConfig(folder, sampleText, lines) };
}

describe("init", () => {
  it("makes a private repository and commits what all nodes share, in one commit", async () => {
    const hub = await startHub();
    const { folder, config } = tiny(
      `distributed: {inner_steps: 3, node_id: here, token: ${secret}, state_dir: own-state}\n`,
    );
    const { code, out, err } = await hub.cli(["init", REPO, "--config", config]);
    expect({ code, err }).toEqual({
      code: 0,
      err: expect.stringMatching(/token is not sent to 127\.0\.0\.1/),
    });
    expect(out).toContain(`made the private repository lab/run at ${hub.endpoint}\n`);
    expect(out).toContain("committed config.yaml, fingerprint.json as ");
    expect(out).toContain("speedtronic join lab/run --data FILE");
    const transport = hub.connect();
    const head = await transport.head();
    expect(
      (await transport.list(head, "")).map(({ path }) => path).filter((path) => path !== ".gitattributes"),
    ).toEqual(["config.yaml", "fingerprint.json"]);
    expect(await transport.create()).toEqual({ created: false, isPublic: false });
    const text = await readText(transport, "config.yaml");
    for (const word of [secret, folder, "train.txt", "redacted", "token:", "output_dir", "node_id"])
      expect(
        text
          .split("\n")
          .filter((line) => !line.startsWith("#"))
          .join("\n"),
      ).not.toContain(word);
    const shared = resolveConfig(parseConfigText(`${text}`.replace("synthetic: false", "synthetic: true")));
    expect(shared.model).toMatchObject({ d_model: 32, n_layer: 2 });
    expect(shared.distributed.inner_steps).toBe(3);
    expect(text).toContain("synthetic: false");
    expect(JSON.parse(await readText(transport, "fingerprint.json"))).toMatchObject({
      format: 1,
      model: { d_model: 32, tokenizer: { kind: "byte", vocab_size: 256 } },
    });
  });

  it("shares all keys but each machine's own: those that look like one are", () => {
    const paths = sections.flatMap(({ name, shape }) =>
      Object.keys(shape).map((key) => (name === "" ? key : `${name}.${key}`)),
    );
    for (const path of OWN_KEYS) expect(paths).toContain(path);
    const looks = /(?:_dir|path|directory|file|token|endpoint|repo_id|node_id|device|role|threads|workers)$/;
    expect(paths.filter((path) => looks.test(path) && !OWN_KEYS.has(path))).toEqual([]);
  });

  it("does nothing the second time, refuses another configuration, and replaces it with --force", async () => {
    const hub = await startHub();
    const { config } = tiny();
    await hub.cli(["init", REPO, "--config", config]);
    const head = await hub.connect().head();
    const again = await hub.cli(["init", REPO, "--config", config, "--set", "run.output_dir=elsewhere"]);
    expect(again).toMatchObject({ code: 0, err: "" });
    expect(again.out).toContain("uses the private repository");
    expect(again.out).toContain("there already, nothing to do");
    const other = ["init", REPO, "--config", config, "--set", "optimizer.lr=0.5"];
    expect(await hub.cli(other)).toMatchObject({
      code: 6,
      err: expect.stringMatching(/another config\.yaml already \(new here: lr: 0\.5\).*--force/s),
    });
    expect(await hub.connect().head()).toBe(head);
    expect(await hub.cli([...other, "--force"])).toMatchObject({ code: 0, err: "" });
    expect(await readText(hub.connect(), "config.yaml")).toContain("lr: 0.5");
  });

  it("never replaces the model of a run that has versions", async () => {
    const hub = await startHub();
    const { config } = tiny();
    await hub.cli(["init", REPO, "--config", config]);
    const transport = hub.connect();
    await startAggregator(transport, config);
    // The aggregator's tests give it no fingerprint; a run of the command has one.
    const record = JSON.parse(await readText(transport, "global/step_count.json"));
    record.fingerprint = JSON.parse(await readText(transport, "fingerprint.json")).model;
    const bytes = new TextEncoder().encode(JSON.stringify(record));
    await transport.commit({
      parent: await transport.head(),
      message: "fingerprint",
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
    const other = ["init", REPO, "--config", config, "--force", "--set", "model.n_head=4"];
    expect(await hub.cli(other)).toMatchObject({
      code: 6,
      err: expect.stringMatching(
        /the model is not the one of the run in lab\/run.*n_head is 2, this run has 4/,
      ),
    });
  });

  it("L-63: refuses a public repository unless that is meant", async () => {
    const hub = await startHub();
    const { config } = tiny();
    await fetch(`${hub.endpoint}/api/repos/create`, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ name: "run", organization: "lab", type: "model", visibility: "public" }),
    });
    const head = await hub.connect().head();
    expect(await hub.cli(["init", REPO, "--config", config])).toMatchObject({
      code: 6,
      err: expect.stringMatching(/can be read by everybody.*--public-ok/),
    });
    expect(await hub.connect().head()).toBe(head);
    const { code, out } = await hub.cli(["init", REPO, "--config", config, "--public-ok"]);
    expect({ code, out }).toEqual({ code: 0, out: expect.stringMatching(/uses the public repository/) });
  });

  it("keeps whatever else is in the repository, as of a Python run", async () => {
    const hub = await startHub();
    const { config } = tiny();
    const transport = hub.connect();
    await transport.create();
    await startAggregator(transport, config);
    const before = await transport.list(await transport.head(), "global/");
    expect(await hub.cli(["init", REPO, "--config", config])).toMatchObject({ code: 0, err: "" });
    expect(await transport.list(await transport.head(), "global/")).toEqual(before);
  });

  it("works on a folder, of which it does not say that it is private", async () => {
    const { repo, connect } = await meetings.folder();
    const { config } = tiny();
    const first = await cli(["init", repo, "--config", config]);
    expect(first).toMatchObject({ code: 0, err: "" });
    expect(first.out).toContain(`made the repository ${repo}\ncommitted config.yaml, fingerprint.json as `);
    expect(JSON.parse(await readText(connect(), "fingerprint.json"))).toMatchObject({
      model: { d_model: 32 },
    });
    const again = await cli(["init", repo, "--config", config]);
    expect(again).toMatchObject({ code: 0, out: expect.stringContaining(`uses the repository ${repo}\n`) });
  });

  it("says what is wrong: flags, names, files, what cannot be trained, the hub", async () => {
    const { folder, config } = tiny();
    const refused = async (args: string[]) => {
      const { code, err } = await cli(["init", ...args], { env: { HF_ENDPOINT: "http://127.0.0.1:9" } });
      return { code, err };
    };
    expect(await refused([REPO])).toEqual({
      code: 2,
      err: expect.stringMatching(/--config <file>' is missing/),
    });
    expect(await refused([])).toEqual({
      code: 2,
      err: expect.stringMatching(/missing required argument 'repo'/),
    });
    expect(await refused(["no-slash", "-c", config])).toEqual({
      code: 2,
      err: expect.stringMatching(/org\/name/),
    });
    expect(await refused([REPO, "-c", join(folder, "none.yaml")])).toMatchObject({ code: 2 });
    expect(await refused([REPO, "-c", config, "--set", "run.device=cuda"])).toEqual({
      code: 2,
      err: expect.stringMatching(/only the device cpu/),
    });
    expect(await refused([REPO, "-c", config])).toEqual({
      code: 6,
      err: expect.stringMatching(/127\.0\.0\.1:9: no connection .*; check the network and the address/),
    });
  });

  it("says what a token lacks", async () => {
    const { folder, config } = tiny();
    const hub = await startHub({ tokenFile: writeTokens(folder) });
    const { code, err } = await hub.cli(["init", REPO, "--config", config]);
    expect({ code, err }).toEqual({ code: 6, err: expect.stringMatching(/token/i) });
    const reader = await hub.cli(["init", REPO, "--config", config], {
      env: { HF_TOKEN: readFileSync(join(folder, "tokens.txt"), "utf8").match(/reader read (\S+)/)![1]! },
    });
    expect(reader.code).toBe(6);
  });
});
