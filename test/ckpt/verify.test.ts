// `ckpt verify` on plain files: all findings, exit codes, JSON. Checkpoints with hashes are in run.test.ts.

import { truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { cli, scratchFolder } from "../cli/harness.js";
import { floats, smallModel, writeModel } from "./files.js";

const folder = scratchFolder();
const plain = (text: string) => text.replaceAll(folder, "<folder>");

test("a good file", async () => {
  const path = await writeModel(join(folder, "good.safetensors"), smallModel());
  const { code, out } = await cli(["ckpt", "verify", path]);
  expect(code).toBe(0);
  expect(plain(out)).toBe(
    "<folder>/good.safetensors: good (5 tensors in 1 file, 1.48 kB; structure right; all values finite)\n",
  );
});

test("values that are no numbers, in every float dtype, and bytes that are no booleans", async () => {
  const path = await writeModel(join(folder, "bad.safetensors"), [
    floats("f32", [1, Number.NaN, 2]),
    floats("fine", [1, 3.4e38, -1e-45, 0]),
    { name: "f64", dtype: "F64", shape: [2], data: Float64Array.of(Infinity, Number.NaN) },
    { name: "bf16", dtype: "BF16", shape: [2], data: Uint16Array.of(0x7f80, 0x7f7f) },
    { name: "f16", dtype: "F16", shape: [2], data: Uint16Array.of(0xfc00, 0x7bff) },
    { name: "f8", dtype: "F8_E4M3", shape: [2], data: Uint8Array.of(0x7f, 0x7e) },
    { name: "mask", dtype: "BOOL", shape: [3], data: Uint8Array.of(0, 1, 2) },
    { name: "ids", dtype: "I32", shape: [1], data: Int32Array.of(0x7fffffff) },
  ]);
  const { code, out } = await cli(["ckpt", "verify", path]);
  expect(code).toBe(1);
  expect(plain(out)).toMatchInlineSnapshot(`
    "<folder>/bad.safetensors: 6 findings
      values  bad.safetensors, tensor "f64": 1 NaN, 1 infinite value
      values  bad.safetensors, tensor "f32": 1 NaN
      values  bad.safetensors, tensor "bf16": 1 infinite value
      values  bad.safetensors, tensor "f16": 1 infinite value
      values  bad.safetensors, tensor "f8": 1 NaN
      values  bad.safetensors, tensor "mask": 1 byte that is neither 0 nor 1
    "
  `);
  const document = JSON.parse((await cli(["ckpt", "verify", path, "--json"])).out);
  expect(document[0].findings[0]).toEqual({
    kind: "values",
    file: "bad.safetensors",
    tensor: "f64",
    message: "1 NaN, 1 infinite value",
  });
  expect((await cli(["ckpt", "verify", path, "--no-values"])).code).toBe(0);
});

test("broken structure is a finding, and the other files are still looked at", async () => {
  const good = await writeModel(join(folder, "a.safetensors"), smallModel());
  const cut = await writeModel(join(folder, "cut.safetensors"), smallModel());
  truncateSync(cut, 1000);
  const { code, out } = await cli(["ckpt", "verify", cut, good]);
  expect(code).toBe(1);
  expect(plain(out)).toMatch(
    /^<folder>\/cut.safetensors: 1 finding\n {2}structure {2}cut.safetensors: file is truncated: have 1000 of \d+ bytes.*\n<folder>\/a.safetensors: good/,
  );
});

test("an index that does not agree with its shards", async () => {
  const sharded = join(folder, "sharded");
  const path = await writeModel(join(folder, "s.safetensors"), smallModel());
  await cli(["ckpt", "shard", path, "--max-size", "300", "-o", sharded]);
  expect((await cli(["ckpt", "verify", sharded])).code).toBe(0);
  writeFileSync(
    join(sharded, "model.safetensors.index.json"),
    JSON.stringify({ weight_map: { ghost: "model-00001-of-00003.safetensors" } }),
  );
  const { code, out } = await cli(["ckpt", "verify", sharded]);
  expect(code).toBe(1);
  expect(out).toContain("does not have it");
});

test("nothing there is an error, not a finding", async () => {
  expect((await cli(["ckpt", "verify", join(folder, "none")])).code).toBe(4);
});
