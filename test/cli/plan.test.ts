// `speedtronic plan`: numbers that can be computed by hand, what each setting changes, the time from a given rate and
// from a probe of the real engine.

import { mkdtempSync, rmSync } from "node:fs";
import { readdir } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { cli } from "./harness.js";

const smoke = join(import.meta.dirname, "../../configs/smoke.yaml");
const folder = mkdtempSync(join(tmpdir(), "speedtronic-plan-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

interface Plan {
  readonly parameters: number;
  readonly flops_per_token: number;
  readonly total_flops: number;
  readonly steps: number;
  readonly tokens: number;
  readonly memory_bytes: Readonly<Record<string, number>>;
  readonly disk_bytes: Readonly<Record<string, number>>;
  readonly tokens_per_sec: number | null;
  readonly tokens_per_sec_source: string | null;
  readonly expected_seconds: number | null;
}

async function planOf(...args: string[]): Promise<Plan> {
  const all = ["plan", "--config", smoke, "--set", `run.output_dir=${folder}/run`, "--json", ...args];
  const { code, out, err } = await cli(all);
  expect({ code, err }).toEqual({ code: 0, err: "" });
  return JSON.parse(out) as Plan;
}

describe("plan", () => {
  it("counts parameters, state, tokens and checkpoints as they are", async () => {
    const plan = await planOf("--tokens-per-sec", "64");
    const weights = 4 * 66_880;
    expect(plan).toMatchObject({
      parameters: 66_880,
      trainable_parameters: 66_880,
      steps: 4,
      tokens_per_step: 64,
      tokens: 256,
      memory_bytes: { weights, gradients: weights, optimizer: 2 * weights, accumulation: weights },
      // Keeps 2, and writes a third before the oldest goes; only 2 are made in 4 steps.
      disk_bytes: { per_checkpoint: 3 * weights, checkpoints: 3, total: 9 * weights },
      tokens_per_sec: 64,
      tokens_per_sec_source: "given",
      expected_seconds: 4,
    });
    const { total, ...parts } = plan.memory_bytes;
    expect(Object.values(parts).reduce((sum, bytes) => sum + bytes, 0)).toBe(total);
    expect(plan.total_flops).toBe(256 * plan.flops_per_token);
  });

  it("comes near to six operations per matrix weight and token", async () => {
    const { flops_per_token: perToken, parameters } = await planOf("--no-probe");
    // The rest are norms, which multiply nothing, and attention scores, which have no weights.
    expect(perToken / (6 * parameters)).toBeGreaterThan(0.97);
    expect(perToken / (6 * parameters)).toBeLessThan(1.25);
  });

  it("follows what decides: optimizer, micro-batch, accumulation, checkpoints", async () => {
    const base = await planOf("--no-probe");
    const lion = await planOf("--no-probe", "--set", "optimizer.name=lion");
    expect(lion.memory_bytes.optimizer).toBe(base.memory_bytes.weights);
    const muon = await planOf("--no-probe", "--set", "optimizer.name=muon");
    expect(muon.memory_bytes.optimizer).toBeLessThan(base.memory_bytes.optimizer!);
    expect(muon.memory_bytes.optimizer).toBeGreaterThan(lion.memory_bytes.optimizer!);
    const wide = await planOf("--no-probe", "--set", "data.micro_batch_size=2");
    expect(wide.memory_bytes.accumulation).toBe(0);
    expect(wide.memory_bytes.activations! / base.memory_bytes.activations!).toBeGreaterThan(1.4);
    expect(wide.memory_bytes.activations! / base.memory_bytes.activations!).toBeLessThan(2.01);
    expect(wide.tokens).toBe(base.tokens);
    const none = await planOf("--no-probe", "--set", "checkpoint.enabled=false");
    expect([none.memory_bytes.checkpoint_copy, none.disk_bytes.total]).toEqual([0, 0]);
    const long = await planOf("--no-probe", "--set", "max_steps=400", "--set", "checkpoint.keep_last=null");
    expect(long.disk_bytes.checkpoints).toBe(201);
    expect(base).toMatchObject({ tokens_per_sec: null, expected_seconds: null });
  });

  it("measures the speed with the real engine, and leaves nothing behind", async () => {
    const plan = await planOf();
    expect(plan.tokens_per_sec_source).toBe("probed");
    expect(plan.tokens_per_sec).toBeGreaterThan(0);
    expect(plan.expected_seconds).toBeCloseTo(256 / plan.tokens_per_sec!, 9);
    expect(await readdir(folder)).toEqual([]);
  });

  it("says it in words", async () => {
    const { out } = await cli(["plan", "--config", smoke, "--tokens-per-sec", "64"]);
    expect(out).toMatch(/^parameters {9}66,880\n/);
    expect(out).toContain("steps              4 of 64 tokens\n");
    expect(out).toContain("4.0s at 64 tokens/s (given), without evaluation and checkpoints\n");
    expect(out).toContain("disk               2.41 MB: at most 3 checkpoints of 803 kB\n");
  });

  it("refuses a rate that is none, and a model that cannot be built", async () => {
    for (const rate of ["0", "fast", "-1", "Infinity"])
      expect((await cli(["plan", "--config", smoke, "--tokens-per-sec", rate])).code).toBe(2);
    const { code, err } = await cli(["plan", "--config", smoke, "--set", "model.name=gtp"]);
    expect(code).toBe(2);
    expect(err).toMatch(/unknown model "gtp"; registered: (?:.*, )?gpt,/);
  });
});
