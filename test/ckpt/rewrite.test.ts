// The tools that write: cast, shard, merge, remap, average, convert between containers. Outputs are read back;
// nothing is overwritten or left half-done.

import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import { loadSafetensors, readMetadata, toFloat32 } from "../../src/formats/safetensors/index.node.js";
import { float32ToBfloat16 } from "../../src/util/half.js";
import { cli, scratchFolder } from "../cli/harness.js";
import { floats, smallModel, writeModel } from "./files.js";

const folder = scratchFolder();
const plain = (text: string) => text.replaceAll(folder, "<folder>");
const at = (name: string) => join(folder, name);
const model = at("model.safetensors");
const loadValues = async (path: string) =>
  Object.fromEntries(
    [...(await loadSafetensors(path))].map(([name, tensor]) => [name, [...toFloat32(tensor)]]),
  );

beforeAll(async () => {
  await writeModel(model, smallModel(), { format: "pt" });
});

describe("outputs", () => {
  test.each(["cast --to bf16", "merge", "remap -r wte.weight=>e", "average", "convert --to safetensors"])(
    "%s needs -o, and does not overwrite without --force",
    async (command) => {
      const [name, ...flags] = command.split(" ");
      const inputs = name === "average" ? [model, model] : [model];
      const target = at(`taken-${name}.safetensors`);
      writeFileSync(target, "precious");
      const without = await cli(["ckpt", name!, ...inputs, ...flags]);
      expect([without.code, without.err.includes("-o, --output <path>' is missing")]).toEqual([2, true]);
      const taken = await cli(["ckpt", name!, ...inputs, ...flags, "-o", target]);
      expect([taken.code, readFileSync(target, "utf8")]).toEqual([2, "precious"]);
      expect(plain(taken.err)).toBe(
        `speedtronic: error: <folder>/taken-${name}.safetensors exists already; choose another output, or replace it with --force\n`,
      );
      const forced = await cli(["ckpt", name!, ...inputs, ...flags, "-o", target, "--force"]);
      expect([forced.code, forced.err]).toEqual([0, ""]);
      expect((await loadSafetensors(target)).size).toBe(5);
      expect([...(await readMetadata(target))]).toEqual([["format", "pt"]]);
    },
  );

  test("an output may replace its own input", async () => {
    const path = await writeModel(at("self.safetensors"), smallModel());
    expect((await cli(["ckpt", "cast", path, "--to", "f16", "-o", path, "--force"])).code).toBe(0);
    expect([...(await loadSafetensors(path)).values()].every(({ dtype }) => dtype === "F16")).toBe(true);
  });
});

describe("cast", () => {
  test("rounds floats to nearest and leaves the rest", async () => {
    const values = [1, 1.00390625, -3.1234, 1e-40, 0];
    const path = await writeModel(at("c.safetensors"), [
      floats("w", values),
      floats("norm", values),
      { name: "ids", dtype: "I64", shape: [1], data: BigInt64Array.of(2n ** 60n) },
      { name: "z", dtype: "C64", shape: [1], data: Float32Array.of(1, 2) },
    ]);
    const target = at("c-bf16.safetensors");
    const { out } = await cli(["ckpt", "cast", path, "--to", "bfloat16", "--keep", "norm*", "-o", target]);
    expect(plain(out)).toMatchInlineSnapshot(`
      "wrote <folder>/c-bf16.safetensors: 4 tensors, 302 B
      1 tensor cast to BF16, 3 left as they were
      "
    `);
    const cast = await loadSafetensors(target);
    expect([...cast].map(([name, { dtype }]) => `${name} ${dtype}`).sort()).toEqual([
      "ids I64",
      "norm F32",
      "w BF16",
      "z C64",
    ]);
    const bits = new Uint16Array(cast.get("w")!.bytes.slice().buffer);
    expect([...bits]).toEqual(values.map((value) => float32ToBfloat16(Math.fround(value))));
  });

  test("float64 is rounded once, not twice", async () => {
    // Just above the middle between two bfloat16 numbers, by less than float32 can tell.
    const value = 1 + 2 ** -8 + 2 ** -40;
    const path = await writeModel(at("d.safetensors"), [
      { name: "w", dtype: "F64", shape: [3], data: Float64Array.of(value, -value, 1 + 2 ** -8) },
    ]);
    await cli(["ckpt", "cast", path, "--to", "bf16", "-o", at("d-bf16.safetensors")]);
    expect((await loadValues(at("d-bf16.safetensors"))).w).toEqual([1 + 2 ** -7, -1 - 2 ** -7, 1]);
  });

  test("a value beyond the range is an error that leaves nothing, unless it is accepted", async () => {
    const path = await writeModel(at("big.safetensors"), [
      floats("a", [65519, 65520, 1e6]),
      floats("b", [1]),
    ]);
    const target = at("big-f16.safetensors");
    const refused = await cli(["ckpt", "cast", path, "--to", "f16", "-o", target]);
    expect(refused.code).toBe(4);
    expect(refused.err).toContain('tensor "a": 1000000 is beyond the range of F16');
    expect(readdirSync(folder).filter((name) => name.includes("big-f16"))).toEqual([]);
    const accepted = await cli(["ckpt", "cast", path, "--to", "f16", "-o", target, "--allow-overflow"]);
    expect([accepted.code, accepted.err]).toEqual([
      0,
      'speedtronic: warning: tensor "a": 2 values became infinite\n',
    ]);
    expect((await loadValues(target)).a).toEqual([65504, Infinity, Infinity]);
  });

  test("an unknown dtype", async () => {
    const { code, err } = await cli(["ckpt", "cast", model, "--to", "int4", "-o", at("x.safetensors")]);
    expect([code, err.includes("Choose bf16, f16 or f32.")]).toEqual([2, true]);
  });
});

describe("shard and merge", () => {
  test("a set in the usual layout, and back to the same bytes", async () => {
    const target = at("sharded");
    const { out } = await cli(["ckpt", "shard", model, "--max-size", "300B", "-o", target]);
    expect(plain(out)).toBe("wrote <folder>/sharded: 5 tensors, 1.93 kB in 4 files\n");
    expect(readdirSync(target).sort()).toEqual([
      "model-00001-of-00003.safetensors",
      "model-00002-of-00003.safetensors",
      "model-00003-of-00003.safetensors",
      "model.safetensors.index.json",
    ]);
    expect(
      JSON.parse(readFileSync(join(target, "model.safetensors.index.json"), "utf8")),
    ).toMatchInlineSnapshot(`
      {
        "metadata": {
          "total_size": 1088,
        },
        "weight_map": {
          "h.0.attn.q.weight": "model-00001-of-00003.safetensors",
          "h.0.norm.weight": "model-00001-of-00003.safetensors",
          "h.1.attn.q.weight": "model-00002-of-00003.safetensors",
          "h.1.norm.weight": "model-00002-of-00003.safetensors",
          "wte.weight": "model-00003-of-00003.safetensors",
        },
      }
    `);
    expect((await cli(["ckpt", "merge", target, "-o", at("merged.safetensors")])).code).toBe(0);
    expect(readFileSync(at("merged.safetensors")).equals(readFileSync(model))).toBe(true);
  });

  test("a forced set with fewer files takes the old ones away", async () => {
    const target = at("again");
    await cli(["ckpt", "shard", model, "--max-size", "300", "-o", target]);
    writeFileSync(join(target, "notes.txt"), "mine");
    const refused = await cli(["ckpt", "shard", model, "-o", target]);
    expect(refused.code).toBe(2);
    expect((await cli(["ckpt", "shard", model, "-o", target, "-f"])).code).toBe(0);
    expect(readdirSync(target).sort()).toEqual([
      "model-00001-of-00001.safetensors",
      "model.safetensors.index.json",
      "notes.txt",
    ]);
  });

  test.each([["5GB"], ["2GiB"], ["100"], ["1.5kB"]])("%s is a size", async (size) => {
    const { code } = await cli(["ckpt", "shard", model, "--max-size", size, "-o", at(`size-${size}`)]);
    expect(code).toBe(0);
  });

  test.each([["0"], ["many"], ["5 apples"], ["-1GB"]])("%s is no size", async (size) => {
    const { code, err } = await cli(["ckpt", "shard", model, `--max-size=${size}`, "-o", at("no")]);
    expect([code, err.includes("size")]).toEqual([2, true]);
  });
});

describe("remap", () => {
  const rules = ["-r", "prefix:h.=>layers.", "-r", "pattern:(.*)\\.attn\\.q\\.(.*)=>$1.q_proj.$2"];

  test("--dry-run shows old and new and writes nothing", async () => {
    const { code, out } = await cli(["ckpt", "remap", model, ...rules, "--dry-run"]);
    expect(code).toBe(0);
    expect(out).toMatchInlineSnapshot(`
      "h.0.attn.q.weight → layers.0.q_proj.weight
      h.0.norm.weight   → layers.0.norm.weight
      h.1.attn.q.weight → layers.1.q_proj.weight
      h.1.norm.weight   → layers.1.norm.weight
      4 of 5 names change
      "
    `);
  });

  test("rules from a file, then from the command line", async () => {
    writeFileSync(at("rules.json"), JSON.stringify([{ prefix: "h.", to: "layers." }]));
    const target = at("remapped.safetensors");
    const { out } = await cli([
      "ckpt",
      "remap",
      model,
      "--rules",
      at("rules.json"),
      ...rules.slice(2),
      "-o",
      target,
    ]);
    expect(out).toContain("4 of 5 names changed");
    expect([...(await loadSafetensors(target)).keys()].sort()).toEqual([
      "layers.0.norm.weight",
      "layers.0.q_proj.weight",
      "layers.1.norm.weight",
      "layers.1.q_proj.weight",
      "wte.weight",
    ]);
  });

  test("wrappers' prefixes come off", async () => {
    const wrapped = at("wrapped.safetensors");
    await writeModel(
      wrapped,
      smallModel().map((tensor) => ({ ...tensor, name: `module._orig_mod.${tensor.name}` })),
    );
    const target = at("bare.safetensors");
    expect((await cli(["ckpt", "remap", wrapped, "--strip-wrappers", "-o", target])).code).toBe(0);
    expect((await cli(["ckpt", "diff", target, model])).code).toBe(0);
  });

  test.each([
    ["a rule that renames nothing", ["-r", "nothing=>x"], 4, "rules that rename nothing"],
    ["two tensors with one name", ["-r", "pattern:h\\.\\d\\.(.*)=>h.$1"], 4, "collisions (2)"],
    ["a rule without an arrow", ["-r", "a"], 2, 'it has no "=>"'],
    ["no rules", [], 2, "no rules: give --rule"],
    ["rules that are not there", ["--rules", "none.json"], 2, "the rules cannot be read"],
  ])("%s", async (_what, flags, wanted, message) => {
    const target = at("never.safetensors");
    const { code, err } = await cli(["ckpt", "remap", model, ...flags, "-o", target]);
    expect([code, err.includes(message)]).toEqual([wanted, true]);
    expect(readdirSync(folder)).not.toContain("never.safetensors");
  });
});

describe("average", () => {
  beforeAll(async () => {
    for (const [name, value] of [
      ["one", 1],
      ["two", 2],
      ["four", 4],
    ] as const) {
      await writeModel(at(`${name}.safetensors`), [
        floats("w", [value, -value, 0]),
        { name: "steps", dtype: "I64", shape: [1], data: BigInt64Array.of(BigInt(value)) },
        { name: "h", dtype: "BF16", shape: [1], data: Uint16Array.of(float32ToBfloat16(value)) },
      ]);
    }
  });
  const inputs = ["one", "two", "four"].map((name) => at(`${name}.safetensors`));

  test("the mean, with integers from the last", async () => {
    const target = at("mean.safetensors");
    const { out } = await cli(["ckpt", "average", ...inputs, "-o", target]);
    expect(plain(out)).toMatchInlineSnapshot(`
      "wrote <folder>/mean.safetensors: 3 tensors, 222 B
        0.3333   <folder>/one.safetensors
        0.3333   <folder>/two.safetensors
        0.3333   <folder>/four.safetensors
      1 tensor without fractions taken from the last model
      "
    `);
    const mean = Math.fround(7 / 3);
    expect(await loadValues(target)).toEqual({
      w: [mean, -mean, 0],
      steps: [4],
      h: [
        toFloat32({
          dtype: "BF16",
          shape: [1],
          bytes: new Uint8Array(Uint16Array.of(float32ToBfloat16(mean)).buffer),
        })[0],
      ],
    });
  });

  test("--ema is the recurrence", async () => {
    const target = at("ema.safetensors");
    await cli(["ckpt", "average", ...inputs, "--ema", "0.75", "-o", target]);
    let expected = 1;
    for (const next of [2, 4]) expected = 0.75 * expected + 0.25 * next;
    expect((await loadValues(target)).w).toEqual([expected, -expected, 0]);
  });

  test.each([
    ["one model", ["one"], [], 2, "at least two"],
    ["a decay of 1", ["one", "two"], ["--ema", "1"], 2, "between 0 and 1"],
  ])("%s is refused", async (_what, names, flags, wanted, message) => {
    const paths = names.map((name) => at(`${name}.safetensors`));
    const { code, err } = await cli(["ckpt", "average", ...paths, ...flags, "-o", at("no.safetensors")]);
    expect([code, err.includes(message)]).toEqual([wanted, true]);
  });

  test("models that are not alike are refused by name", async () => {
    const { code, err } = await cli(["ckpt", "average", inputs[0]!, model, "-o", at("no.safetensors")]);
    expect([code, /no tensor "h\.0\.attn\.q\.weight"/.test(err)]).toEqual([4, true]);
  });
});

describe("convert", () => {
  test("between containers, values untouched", async () => {
    expect(
      (await cli(["ckpt", "convert", model, "--to", "sharded", "--max-size", "400", "-o", at("cs")])).code,
    ).toBe(0);
    expect(
      (await cli(["ckpt", "convert", at("cs"), "--to", "safetensors", "-o", at("cs.safetensors")])).code,
    ).toBe(0);
    expect(readFileSync(at("cs.safetensors")).equals(readFileSync(model))).toBe(true);
  });

  test("bare tensors need a configuration to become a checkpoint, and must fit it", async () => {
    const without = await cli(["ckpt", "convert", model, "--to", "checkpoint", "-o", at("ck")]);
    expect([without.code, without.err.includes("name a configuration with --config")]).toEqual([2, true]);
    const wrong = await cli([
      "ckpt",
      "convert",
      model,
      "--to",
      "checkpoint",
      "--config",
      "configs/smoke.yaml",
      "-o",
      at("ck"),
    ]);
    expect([wrong.code, wrong.err.includes("the tensors do not fit the model")]).toEqual([4, true]);
    const hub = await cli(["ckpt", "convert", model, "--to", "huggingface", "-o", at("hf")]);
    expect([hub.code, hub.err.includes("does not say which model it is")]).toEqual([2, true]);
  });

  test("an unknown form lists the known ones", async () => {
    const { code, err } = await cli(["ckpt", "convert", model, "--to", "gguf", "-o", at("x")]);
    expect(code).toBe(2);
    expect(err).toContain("safetensors, sharded, checkpoint, huggingface");
  });
});
