// `speedtronic doctor`: a run that is fine, one finding for each thing that can be wrong, and that it leaves no trace.

import { mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { loadConfigFile } from "../../src/config/index.js";
import { diagnose } from "../../src/train/doctor/diagnose.js";
import type { Diagnosis, Finding } from "../../src/train/doctor/finding.js";
import { READER, writeTokens } from "../hub-server/harness.js";
import { REPO, startHub } from "./fleet.js";
import { cli, sampleText, scratchFolder, writeTinyConfig } from "./harness.js";

interface Report extends Diagnosis {
  readonly ok: boolean;
}

function tiny(lines = "", text = sampleText): { folder: string; config: string } {
  const folder = scratchFolder();
  return { folder, config: writeTinyConfig(folder, text, lines) };
}

async function examined(config: string, ...sets: string[]): Promise<Report & { readonly code: number }> {
  const args = sets.flatMap((set) => ["--set", set]);
  const { code, out } = await cli(["doctor", "--config", config, "--no-probe", "--json", ...args]);
  return { code, ...(JSON.parse(out) as Report) };
}

const problems = ({ findings }: Diagnosis) => findings.filter(({ severity }) => severity === "problem");
const statuses = ({ checks }: Diagnosis) => Object.fromEntries(checks.map((c) => [c.check, c.status]));

describe("a run that is fine", () => {
  it("gets no problem, is timed, and leaves nothing behind", async () => {
    const { folder, config } = tiny();
    const before = readdirSync(folder);
    const { code, out, err } = await cli(["doctor", "--config", config]);
    expect({ code, err }).toEqual({ code: 0, err: "" });
    expect(out).toMatch(/^settings {2}ok {7}device cpu, precision fp32 \(.+\)\n/);
    expect(out).toMatch(/\ndata {6}ok {7}.+ samples of \d+ tokens.*; the run takes them [\d.]+ times\n/);
    expect(out).toMatch(/\nspeed {5}ok {7}.+ an update, .+ tokens\/s, .+ in all; first loss \d/);
    expect(out).toMatch(/\nno problems\n$/);
    expect(readdirSync(folder)).toEqual(before);
  });

  it("is described as JSON as well", async () => {
    const report = await examined(tiny().config);
    expect(report).toMatchObject({ code: 0, ok: true });
    expect(statuses(report)).toEqual({
      settings: "ok",
      data: "ok",
      model: "ok",
      memory: "ok",
      disk: "ok",
      speed: "skipped",
    });
  });
});

describe("it finds", () => {
  const cases: { name: string; sets: string[]; finding: Partial<Record<keyof Finding, unknown>> }[] = [
    {
      name: "a text that is not there",
      sets: ["data.text_path=no-such-file.txt"],
      finding: { check: "data", where: "data", what: expect.stringContaining("no-such-file.txt") },
    },
    {
      name: "a text shorter than one block",
      sets: ["data.block_size=100000", "model.max_seq_len=100000"],
      finding: { check: "data", what: expect.stringContaining("is shorter than one block") },
    },
    {
      name: "fewer samples than one update takes",
      sets: ["data.target_batch_size=100000"],
      finding: {
        check: "data",
        where: "data.text_path",
        what: expect.stringMatching(/make \d+ micro-batches, but one update takes \d+/),
        action: expect.stringContaining("lower data.target_batch_size"),
      },
    },
    {
      name: "text beyond the vocabulary",
      sets: ["model.vocab_size=64"],
      finding: { check: "data", what: expect.stringMatching(/vocab/) },
    },
    {
      name: "a model that does not exist",
      sets: ["model.name=gtp"],
      finding: { check: "model", what: expect.stringContaining('unknown model "gtp"') },
    },
    {
      name: "a device that is not here",
      sets: ["run.device=cuda"],
      finding: { check: "settings", where: "run.device", action: expect.stringContaining('"cpu"') },
    },
  ];
  it.each(cases)("$name", async ({ sets, finding }) => {
    const report = await examined(tiny().config, ...sets);
    expect(report).toMatchObject({ code: 1, ok: false });
    expect(problems(report)).toContainEqual(expect.objectContaining(finding));
    for (const { where, what, action } of problems(report))
      for (const text of [where, what, action]) expect(text).not.toBe("");
    // The other checks were made all the same.
    expect(report.checks.map(({ check }) => check)).toEqual(
      expect.arrayContaining(["settings", "data", "model", "memory", "disk"]),
    );
  });

  it("an output folder that is a file, and checkpoints of an earlier run", async () => {
    const { folder, config } = tiny();
    writeFileSync(join(folder, "taken"), "");
    const blocked = await examined(config, `run.output_dir=${folder}/taken/run`);
    expect(problems(blocked).map(({ where }) => where)).toContain("run.output_dir");
    const earlier = join(folder, "again");
    mkdirSync(join(earlier, "checkpoints", "step-000000000003"), { recursive: true });
    const noted = await examined(config, `run.output_dir=${earlier}`);
    expect(noted).toMatchObject({ code: 0, ok: true });
    expect(noted.findings).toContainEqual(
      expect.objectContaining({ severity: "note", what: "1 checkpoint of an earlier run is there" }),
    );
  });

  it("too little memory, which also spares the probe, and too little disk", async () => {
    const config = await loadConfigFile(tiny().config);
    const machine = { memoryBytes: 1e6, freeMemoryBytes: 1e6, freeDiskBytes: async () => 10 };
    const report = await diagnose(config, { env: {}, machine });
    expect(problems(report).map(({ check }) => check)).toEqual(["memory", "disk"]);
    expect(statuses(report)).toMatchObject({ speed: "skipped" });
    for (const { action } of problems(report)) expect(action).toMatch(/^lower /);
  });

  it("settings that amount to something else, as notes", async () => {
    const report = await examined(tiny().config, "precision.mode=bf16", "model.vocab_size=300");
    expect(report.ok).toBe(true);
    expect(report.findings.map(({ severity, where }) => [severity, where])).toEqual([
      ["note", "precision"],
      ["note", "model.vocab_size"],
    ]);
  });

  it("says a problem in words: what, where, what to do", async () => {
    const { code, out } = await cli([
      "doctor",
      "--config",
      tiny().config,
      "--no-probe",
      "--set",
      "run.device=cuda",
    ]);
    expect(code).toBe(1);
    expect(out).toContain("settings  PROBLEM  ");
    expect(out).toContain(
      '\nproblem: run.device: "cuda": only the device cpu exists here\n  use "cpu", or "auto", which means the same\n',
    );
    expect(out).toMatch(/\n1 problem\n$/);
  });
});

describe("the repository of a run", () => {
  const worker = (repo: string, more = "") =>
    tiny(`distributed: {enabled: true, role: worker, repo_id: "${repo}"${more}}\n`).config;

  it("answers and may be written, and nothing is written", async () => {
    const hub = await startHub();
    const transport = hub.connect();
    await transport.create();
    const head = await transport.head();
    const { code, out } = await hub.cli(["doctor", "--config", worker(REPO), "--json", "--no-probe"]);
    expect(code).toBe(0);
    expect(statuses(JSON.parse(out) as Report)).toMatchObject({ repository: "ok" });
    expect(await transport.head()).toBe(head);
  });

  it("is not there, or nobody answers", async () => {
    const hub = await startHub();
    const look = async () => {
      const { code, out } = await hub.cli(["doctor", "--config", worker(REPO), "--json", "--no-probe"]);
      expect(code).toBe(1);
      return problems(JSON.parse(out) as Report);
    };
    expect(await look()).toEqual([
      expect.objectContaining({ check: "repository", action: expect.stringContaining("speedtronic init") }),
    ]);
  });

  it("may be read only", async () => {
    const folder = scratchFolder();
    const hub = await startHub({ tokenFile: writeTokens(folder) });
    const config = worker(REPO);
    const alice = hub.connect(REPO, `hf_${"a".repeat(30)}`);
    await alice.create();
    const head = await alice.head();
    const { code, out } = await hub.cli(["doctor", "--config", config, "--json", "--no-probe"], {
      env: { HF_TOKEN: READER },
    });
    expect(code).toBe(1);
    expect(problems(JSON.parse(out) as Report)).toEqual([
      expect.objectContaining({
        what: expect.stringMatching(/^it can be read, but not written: /),
        action: "set HF_TOKEN or distributed.token to a token that may write there",
      }),
    ]);
    expect(out).not.toContain(READER);
    expect(await alice.head()).toBe(head);
  });

  it("would get more commits than its budget allows", async () => {
    const hub = await startHub();
    await hub.connect().create();
    const config = worker(REPO, ", inner_steps: 1, commits_per_hour: 1");
    const { code, out } = await hub.cli(["doctor", "--config", config, "--json"]);
    expect(code).toBe(1);
    expect(problems(JSON.parse(out) as Report)).toEqual([
      expect.objectContaining({
        where: "distributed.inner_steps",
        action: expect.stringMatching(/^raise it to at least \d{3,}$/),
      }),
    ]);
  });
});
