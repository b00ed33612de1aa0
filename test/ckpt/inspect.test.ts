// `ckpt inspect`: the tree, the JSON document, addresses, and what it says to things that are no models.

import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import { cli, scratchFolder } from "../cli/harness.js";
import { noise, serveFolder, smallModel, writeModel } from "./files.js";

const folder = scratchFolder();
const path = join(folder, "model.safetensors");
const plain = (text: string) => text.replaceAll(folder, "<folder>");
const unicode = { env: { LANG: "en_US.UTF-8" } };

beforeAll(async () => {
  await writeModel(path, smallModel(), { format: "pt" });
});

describe("a file", () => {
  test("is a tree in which layers that are alike are one", async () => {
    const { code, out, err } = await cli(["ckpt", "inspect", path], unicode);
    expect([code, err]).toEqual([0, ""]);
    expect(plain(out)).toMatchInlineSnapshot(`
      "model     <folder>/model.safetensors
      form      safetensors file, 1.49 kB
      metadata  format = pt

      5 tensors, 272 elements, F32 1.09 kB
      name              dtype  shape    elements   size
      h.0…1  ×2
      ├─ attn.q.weight  F32    [8, 8]        128  512 B
      └─ norm.weight    F32    [8]            16   64 B
      wte.weight        F32    [16, 8]       128  512 B
      "
    `);
  });

  test("--all lists each layer, and without Unicode the tree is plain", async () => {
    const { out } = await cli(["ckpt", "inspect", path, "--all"]);
    expect(plain(out).split("\n").slice(5)).toMatchInlineSnapshot(`
      [
        "name                 dtype  shape    elements   size",
        "h",
        "|- 0",
        "|  |- attn.q.weight  F32    [8, 8]         64  256 B",
        "|  \`- norm.weight    F32    [8]             8   32 B",
        "\`- 1",
        "   |- attn.q.weight  F32    [8, 8]         64  256 B",
        "   \`- norm.weight    F32    [8]             8   32 B",
        "wte.weight           F32    [16, 8]       128  512 B",
        "",
      ]
    `);
  });

  test("--only shows a part", async () => {
    const { out } = await cli(["ckpt", "inspect", path, "--only", "*norm*", "--only", "wte*", "--json"]);
    const names = JSON.parse(out).parts.model.tensors.map(({ name }: { name: string }) => name);
    expect(names).toEqual(["h.0.norm.weight", "h.1.norm.weight", "wte.weight"]);
  });

  test("--json has everything", async () => {
    const { code, out } = await cli(["ckpt", "inspect", path, "--json"]);
    expect(code).toBe(0);
    const document = JSON.parse(out);
    expect(document).toMatchObject({ form: "safetensors", metadata: { format: "pt" }, aliases: {} });
    expect(document.parts.model.totals).toEqual({
      tensors: 5,
      elements: 272,
      sizeBytes: 1088,
      dtypes: [{ dtype: "F32", tensors: 5, elements: 272, sizeBytes: 1088 }],
    });
    expect(document.parts.model.tensors[0]).toEqual({
      name: "h.0.attn.q.weight",
      dtype: "F32",
      shape: [8, 8],
      sizeBytes: 256,
    });
  });

  test("names cannot command the terminal", async () => {
    const evil = await writeModel(join(folder, "evil.safetensors"), [noise("a\x1b[2J\n.b", [2])], {
      "k\x1b": "v\x07",
    });
    const { out } = await cli(["ckpt", "inspect", evil]);
    // biome-ignore lint/suspicious/noControlCharactersInRegex: the test is about control characters.
    expect(out).not.toMatch(/[\x00-\x09\x0b-\x1f]/);
    expect(out).toContain("a\\x1b[2J\\n");
  });
});

describe("an address", () => {
  test("is inspected by its header alone", async () => {
    const large = noise("w", [200_000]);
    await writeModel(join(folder, "large.safetensors"), [large]);
    const server = await serveFolder(folder);
    const { code, out } = await cli(["ckpt", "inspect", `${server.address}/large.safetensors`, "--json"]);
    expect(code).toBe(0);
    const document = JSON.parse(out);
    expect(document.parts.model.totals.elements).toBe(200_000);
    expect(document.transferredBytes).toBe(65_536);
    expect(server.sentBytes()).toBe(65_536);
  });

  test("of a sharded set opens each shard", async () => {
    const sharded = join(folder, "sharded");
    await cli(["ckpt", "shard", path, "--max-size", "500", "-o", sharded]);
    const server = await serveFolder(sharded);
    const { out } = await cli([
      "ckpt",
      "inspect",
      `${server.address}/model.safetensors.index.json?download=true`,
      "--json",
    ]);
    expect(JSON.parse(out)).toMatchObject({ form: "sharded", parts: { model: { totals: { tensors: 5 } } } });
  });

  test.each([
    ["without ranges", false, "model.safetensors", "it sends whole files only"],
    ["without the file", true, "none.safetensors", "there is no such file"],
  ])("of a server %s is an error in words", async (_what, ranges, name, message) => {
    const server = await serveFolder(folder, { ranges });
    const { code, out, err } = await cli(["ckpt", "inspect", `${server.address}/${name}`]);
    expect([code, out]).toEqual([4, ""]);
    expect(err).toContain(message);
  });

  test("nobody answers", async () => {
    const server = await serveFolder(folder);
    await server.close();
    const { code, err } = await cli(["ckpt", "inspect", `${server.address}/m.safetensors?token=secret`]);
    expect(code).toBe(4);
    expect(err).toContain("cannot be reached");
    expect(err).not.toContain("secret");
  });
});

describe("what is no model", () => {
  test("a path that is not there", async () => {
    const { code, err } = await cli(["ckpt", "inspect", join(folder, "none")]);
    expect(code).toBe(4);
    expect(plain(err)).toBe("speedtronic: error: <folder>/none does not exist; check the path\n");
  });

  test("a folder without one, and one with several", async () => {
    const empty = join(folder, "empty");
    mkdirSync(empty);
    const nothing = await cli(["ckpt", "inspect", empty]);
    expect(nothing.code).toBe(4);
    expect(plain(nothing.err)).toContain("<folder>/empty: found no model in this folder");
    await writeModel(join(empty, "a.safetensors"), [noise("a", [1])]);
    expect((await cli(["ckpt", "inspect", empty])).code).toBe(0);
    await writeModel(join(empty, "b.safetensors"), [noise("a", [1])]);
    expect((await cli(["ckpt", "inspect", empty])).err).toContain("a.safetensors, b.safetensors; name one");
  });

  test("a file that is cut off", async () => {
    const cut = join(folder, "cut.safetensors");
    writeFileSync(cut, Buffer.from("4800000000000000", "hex"));
    const { code, err } = await cli(["ckpt", "inspect", cut]);
    expect(code).toBe(4);
    expect(plain(err)).toContain("<folder>/cut.safetensors: file is truncated: have 8 of 80 bytes");
  });

  test("an unknown command, and none", async () => {
    const unknown = await cli(["ckpt", "inspct"]);
    expect(unknown.code).toBe(2);
    expect(unknown.err).toContain("Did you mean inspect?");
    const none = await cli(["ckpt"]);
    expect(none.code).toBe(2);
    expect(none.err).toContain("speedtronic ckpt inspect runs/demo");
  });
});
