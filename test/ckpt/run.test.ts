// The tools on a real run: its newest checkpoint, all of them, damage, and conversions there and back.

import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { loadModel } from "speedtronic/checkpoint";
import { beforeAll, describe, expect, test } from "vitest";
import { cli, sampleText, scratchFolder, writeTinyConfig } from "../cli/harness.js";

const folder = scratchFolder();
const run = join(folder, "run");
const plain = (text: string) => text.replaceAll(folder, "<folder>");
let configPath: string;

beforeAll(async () => {
  configPath = writeTinyConfig(folder, sampleText);
  const { code, err } = await cli(["train", "--config", configPath]);
  expect([code, err]).toEqual([0, expect.any(String)]);
});

describe("a run", () => {
  test("stands for its newest checkpoint, with a part for each kind of tensors", async () => {
    const { code, out } = await cli(["ckpt", "inspect", run, "--part", "all", "--json"]);
    expect(code).toBe(0);
    const document = JSON.parse(out);
    expect(document).toMatchObject({
      form: "checkpoint",
      aliases: { "lm_head.weight": "transformer.wte.weight" },
      checkpoint: { step: 6, kind: "training" },
    });
    const { model, optimizer } = document.parts;
    expect(optimizer.totals.tensors).toBe(2 * model.totals.tensors);
    expect(optimizer.totals.elements).toBe(2 * model.totals.elements);
  });

  test("says what it is, for people", async () => {
    const { out } = await cli(["ckpt", "inspect", run], { env: { LANG: "C.UTF-8" } });
    const stable = plain(out)
      .replace(/^run .*$/m, "run       <id>")
      .replace(/^written .*$/m, "written   <time>")
      .replace(/checkpoint, .*$/m, "checkpoint, <size>");
    expect(stable).toMatchInlineSnapshot(`
      "model     <folder>/run/checkpoints/step-000000000006
      form      checkpoint, <size>
      step      6
      run       <id>
      written   <time>
      holds     a whole training state
      parent    step-000000000004
      metadata  format = pt
      tied      lm_head.weight = transformer.wte.weight

      model: 20 tensors, 24,608 elements, F32 98.4 kB
      name                       dtype  shape      elements     size
      transformer
      ├─ h.0…1  ×2
      │  ├─ attn
      │  │  ├─ k_proj.weight     F32    [32, 32]      2,048  8.19 kB
      │  │  ├─ out_proj.weight   F32    [32, 32]      2,048  8.19 kB
      │  │  ├─ q_proj.weight     F32    [32, 32]      2,048  8.19 kB
      │  │  └─ v_proj.weight     F32    [32, 32]      2,048  8.19 kB
      │  ├─ ln1.weight           F32    [32]             64    256 B
      │  ├─ ln2.weight           F32    [32]             64    256 B
      │  └─ mlp
      │     ├─ down_proj.weight  F32    [32, 42]      2,688  10.8 kB
      │     ├─ gate_proj.weight  F32    [42, 32]      2,688  10.8 kB
      │     └─ up_proj.weight    F32    [42, 32]      2,688  10.8 kB
      ├─ ln_f.weight             F32    [32]             32    128 B
      └─ wte.weight              F32    [256, 32]     8,192  32.8 kB

      not shown: optimizer (--part all)
      "
    `);
  });

  test("--all verifies every checkpoint, hashes included", async () => {
    const { code, out } = await cli(["ckpt", "verify", run, "--all"]);
    expect(code).toBe(0);
    expect(plain(out).match(/step-0+\d+: good .*hashes match/g)).toHaveLength(2);
  });

  test("two checkpoints of it differ, and one does not differ from itself", async () => {
    const [older, newer] = [4, 6].map((step) =>
      join(run, "checkpoints", `step-${String(step).padStart(12, "0")}`),
    );
    expect((await cli(["ckpt", "diff", older!, newer!])).code).toBe(1);
    expect((await cli(["ckpt", "diff", run, newer!, "--part", "all"])).code).toBe(0);
  });

  test("averages of its checkpoints", async () => {
    const steps = [4, 6].map((step) => join(run, "checkpoints", `step-${String(step).padStart(12, "0")}`));
    const target = join(folder, "average.safetensors");
    expect((await cli(["ckpt", "average", ...steps, "-o", target])).code).toBe(0);
    const { code, out } = await cli(["ckpt", "diff", target, steps[1]!, "--json"]);
    expect(code).toBe(1);
    expect(JSON.parse(out).parts.model.onlyInA).toEqual([]);
  });
});

describe("conversions", () => {
  test("to one file with both names of a tied tensor, and back to a checkpoint that generates", async () => {
    const file = join(folder, "model.safetensors");
    const { out } = await cli(["ckpt", "convert", run, "--to", "safetensors", "-o", file]);
    expect(out).toContain("left out: optimizer");
    expect((await cli(["ckpt", "diff", run, file])).code).toBe(0);
    const back = join(folder, "back");
    const made = await cli([
      "ckpt",
      "convert",
      file,
      "--to",
      "checkpoint",
      "--config",
      configPath,
      "-o",
      back,
    ]);
    expect([made.code, made.err]).toEqual([0, ""]);
    expect((await cli(["ckpt", "diff", run, back])).code).toBe(0);
    expect((await cli(["ckpt", "verify", back])).code).toBe(0);
    const prompt = ["--prompt", "abc", "--max-new-tokens", "8"];
    const text = await cli(["generate", "--checkpoint", back, ...prompt]);
    expect([text.code, text.out]).toEqual([0, (await cli(["generate", "--checkpoint", run, ...prompt])).out]);
    // Never enough for a resume.
    const resumed = await cli(["train", "--config", configPath, "--resume", back]);
    expect([resumed.code, resumed.err.includes("weights alone")]).toEqual([4, true]);
  });

  test("to weights alone", async () => {
    const target = join(folder, "weights");
    const { code, out } = await cli(["ckpt", "convert", run, "--to", "checkpoint", "-o", target]);
    expect([code, out.includes("training cannot be resumed from this folder")]).toEqual([0, true]);
    const taken = await cli(["ckpt", "convert", run, "--to", "checkpoint", "-o", target]);
    expect(taken.code).toBe(2);
    expect((await cli(["ckpt", "convert", run, "--to", "checkpoint", "-o", target, "-f"])).code).toBe(0);
  });

  test("to a Hugging Face folder and back", async () => {
    const hub = join(folder, "hub");
    const { code, out } = await cli(["ckpt", "convert", run, "--to", "huggingface", "-o", hub]);
    expect([code, out.includes("LlamaForCausalLM")]).toEqual([0, true]);
    expect(existsSync(join(hub, "config.json"))).toBe(true);
    const back = join(folder, "from-hub");
    expect((await cli(["ckpt", "convert", hub, "--to", "checkpoint", "-o", back])).code).toBe(0);
    const prompt = ["--prompt", "abc", "--max-new-tokens", "8", "--temperature", "0"];
    const text = await cli(["generate", "--checkpoint", back, ...prompt]);
    expect([text.code, text.out]).toEqual([0, (await cli(["generate", "--checkpoint", run, ...prompt])).out]);
  });
});

describe("convert --context", () => {
  const llama = join(import.meta.dirname, "../fixtures/huggingface/llama");
  const toCheckpoint = (input: string, context: string, output: string) =>
    cli(["ckpt", "convert", input, "--context", context, "--to", "checkpoint", "-o", join(folder, output)]);

  test("builds an imported model for fewer positions, by default for all", async () => {
    expect((await toCheckpoint(llama, "12", "short")).code).toBe(0);
    expect(
      (await cli(["ckpt", "convert", llama, "--to", "checkpoint", "-o", join(folder, "full")])).code,
    ).toBe(0);
    const lengthOf = async (path: string) =>
      (await loadModel(join(folder, path))).content.config as { model: { max_seq_len: number } };
    expect((await lengthOf("short")).model.max_seq_len).toBe(12);
    expect((await lengthOf("full")).model.max_seq_len).toBe(32);
  });

  test("refuses more positions than the model was made for, and writes nothing", async () => {
    const { code, err } = await toCheckpoint(llama, "33", "long");
    expect([code, existsSync(join(folder, "long"))]).toEqual([2, false]);
    expect(err).toContain("longer than the model was made for (max_position_embeddings: 32)");
  });

  test("is a whole number, and refused where it would change nothing", async () => {
    const broken = await toCheckpoint(llama, "1.5", "broken");
    expect([broken.code, broken.err.includes("whole number of at least 1")]).toEqual([2, true]);
    const unused = await toCheckpoint(run, "12", "unused");
    expect([unused.code, unused.err.includes("is no Hugging Face folder")]).toEqual([2, true]);
    const tensors = ["ckpt", "convert", llama, "--context", "12", "--to", "safetensors"];
    const other = await cli([...tensors, "-o", join(folder, "other.safetensors")]);
    expect([other.code, other.err.includes("--context belongs to --to checkpoint")]).toEqual([2, true]);
  });

  test("stands in the help", async () => {
    const { out } = await cli(["ckpt", "convert", "--help"]);
    expect(out.replace(/\s+/g, " ")).toContain("default: max_position_embeddings of its config.json");
  });
});

describe("damage", () => {
  test("a flipped bit is found by its hash, and is no reason not to look", async () => {
    const copy = join(folder, "damaged");
    expect((await cli(["ckpt", "convert", run, "--to", "checkpoint", "-o", copy])).code).toBe(0);
    const file = join(copy, "model.safetensors");
    const bytes = readFileSync(file);
    bytes[bytes.length - 5]! ^= 0x01;
    writeFileSync(file, bytes);
    const { code, out } = await cli(["ckpt", "verify", copy]);
    expect(code).toBe(1);
    expect(plain(out)).toMatch(/^<folder>\/damaged: 1 finding\n {2}hash {2}model.safetensors: .*SHA-256/);
    expect((await cli(["ckpt", "inspect", copy])).code).toBe(0);
    // What would give it fresh hashes is refused.
    const laundered = await cli([
      "ckpt",
      "convert",
      copy,
      "--to",
      "checkpoint",
      "-o",
      join(folder, "laundered"),
    ]);
    expect(laundered.code).toBe(4);
  });
});
