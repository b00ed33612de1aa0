// `ckpt diff`: each kind of difference, tolerances, forms and dtypes that differ, exit codes.

import { join } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import { encodeBfloat16 } from "../../src/util/half.js";
import { cli, scratchFolder } from "../cli/harness.js";
import { floats, smallModel, writeModel } from "./files.js";

const folder = scratchFolder();
const plain = (text: string) => text.replaceAll(folder, "<folder>");
const a = join(folder, "a.safetensors");
const b = join(folder, "b.safetensors");

beforeAll(async () => {
  await writeModel(a, [
    floats("same", [1, 2, 3]),
    floats("moved", [1, 2, 3, 4]),
    floats("shaped", [1, 2, 3, 4], [2, 2]),
    floats("left", [1]),
    floats("nan", [Number.NaN, 1]),
    { name: "typed", dtype: "I32", shape: [2], data: Int32Array.of(1, 2) },
  ]);
  await writeModel(b, [
    floats("same", [1, 2, 3]),
    floats("moved", [1, 2, 3, 4.5]),
    floats("shaped", [1, 2, 3, 4], [4]),
    floats("right", [1]),
    floats("nan", [Number.NaN, Infinity]),
    floats("typed", [1, 2]),
  ]);
});

describe("diff", () => {
  test("names every kind of difference and exits with 1", async () => {
    const { code, out } = await cli(["ckpt", "diff", a, b]);
    expect(code).toBe(1);
    expect(plain(out)).toMatchInlineSnapshot(`
      "a  <folder>/a.safetensors
      b  <folder>/b.safetensors

      only in a (1)
        left  F32  [1]

      only in b (1)
        right  F32  [1]

      another shape or dtype (2)
        name    a           b
        shaped  F32 [2, 2]  F32 [4]
        typed   I32 [2]     F32 [2]

      other values (2)
        name   max abs  max rel  rel norm  differ
        moved      0.5    0.111    0.0854  1 of 4
        nan        inf      inf         -  1 of 2

      7 tensors: 1 the same
      "
    `);
  });

  test("--json carries the figures", async () => {
    const { code, out } = await cli(["ckpt", "diff", a, b, "--json"]);
    expect(code).toBe(1);
    const { model } = JSON.parse(out).parts;
    expect(model.same).toBe(1);
    expect(model.onlyInA).toEqual([{ name: "left", dtype: "F32", shape: [1] }]);
    const moved = model.different.find(({ name }: { name: string }) => name === "moved");
    expect(moved.values).toEqual({
      changed: 1,
      count: 4,
      maxAbsolute: 0.5,
      maxRelative: 0.5 / 4.5,
      relativeNorm: Math.sqrt(0.25 / (1 + 4 + 9 + 4.5 ** 2)),
    });
    expect(model.different.find(({ name }: { name: string }) => name === "nan").values.maxAbsolute).toBe(
      "Infinity",
    );
  });

  test("the same file, and a tolerance", async () => {
    const same = await cli(["ckpt", "diff", a, a]);
    expect([same.code, plain(same.out)]).toEqual([
      0,
      "a  <folder>/a.safetensors\nb  <folder>/a.safetensors\n\n6 tensors: no difference\n",
    ]);
    const only = ["--only", "moved"];
    expect((await cli(["ckpt", "diff", a, b, ...only])).code).toBe(1);
    expect((await cli(["ckpt", "diff", a, b, ...only, "--atol", "0.5"])).code).toBe(0);
    expect((await cli(["ckpt", "diff", a, b, ...only, "--rtol", "0.2"])).code).toBe(0);
    expect((await cli(["ckpt", "diff", a, b, ...only, "--rtol", "0.1"])).code).toBe(1);
    expect((await cli(["ckpt", "diff", a, b, "--atol", "x"])).code).toBe(2);
  });

  test("values are compared across dtypes, over several pieces", async () => {
    const values = Float32Array.from({ length: 600_000 }, (_, i) => (i % 100) / 8);
    const wide = await writeModel(join(folder, "wide.safetensors"), [floats("w", [...values])]);
    const narrow = await writeModel(join(folder, "narrow.safetensors"), [
      { name: "w", dtype: "BF16", shape: [values.length], data: encodeBfloat16(values) },
    ]);
    const { code, out } = await cli(["ckpt", "diff", wide, narrow, "--json"]);
    expect(code).toBe(1);
    // bfloat16 has 8 bits: steps of 1/16 from 8 on, so that every odd eighth is exact.
    expect(JSON.parse(out).parts.model.different[0].values).toBeNull();
  });

  test("a sharded set equals the file that it was made of", async () => {
    const path = await writeModel(join(folder, "m.safetensors"), smallModel());
    await cli(["ckpt", "shard", path, "--max-size", "400", "-o", join(folder, "sharded")]);
    expect((await cli(["ckpt", "diff", path, join(folder, "sharded")])).code).toBe(0);
  });
});
