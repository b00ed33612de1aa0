// The tools on PyTorch files: real ones that torch wrote, and one that wants to run a command.

import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { cli, scratchFolder } from "../cli/harness.js";

const folder = scratchFolder();
const fixture = (name: string) => fileURLToPath(new URL(`../fixtures/torch/${name}`, import.meta.url));

test.each(["dtypes-zip.pt", "dtypes-legacy.pt"])(
  "%s converts, and does not differ from what came out",
  async (name) => {
    const target = join(folder, `${name}.safetensors`);
    const { code } = await cli(["ckpt", "convert", fixture(name), "--to", "safetensors", "-o", target]);
    expect(code).toBe(0);
    expect((await cli(["ckpt", "diff", fixture(name), target])).code).toBe(0);
  },
);

test("a nested file has a tree", async () => {
  const { code, out } = await cli(["ckpt", "inspect", fixture("nested-zip.pt"), "--part", "all", "--json"]);
  expect(code).toBe(0);
  const document = JSON.parse(out);
  expect(document.form).toBe("torch");
  expect(Object.keys(document.parts)).toContain("model");
});

test("a file that wants to run a command is refused by name, and nothing ran", async () => {
  const canary = join(folder, "canary");
  const command = `touch ${canary}`;
  const text = Buffer.from(command);
  const length = Buffer.alloc(4);
  length.writeUInt32LE(text.byteLength);
  // PROTO 2, GLOBAL posix system, BINUNICODE command, TUPLE1, REDUCE, STOP.
  const evil = Buffer.concat([
    Buffer.from("\x80\x02cposix\nsystem\nX", "latin1"),
    length,
    text,
    Buffer.from("\x85R.", "latin1"),
  ]);
  const path = join(folder, "evil.pt");
  writeFileSync(path, evil);
  const inspected = await cli(["ckpt", "inspect", path]);
  expect([inspected.code, inspected.out]).toEqual([4, ""]);
  expect(inspected.err).toContain("posix.system");
  const verified = await cli(["ckpt", "verify", path]);
  expect([verified.code, verified.out.includes("posix.system")]).toEqual([1, true]);
  expect(existsSync(canary)).toBe(false);
});

test("a checkpoint of Python Speedtronic becomes a run, and says which moments it lacks", async () => {
  const target = join(folder, "from-python");
  const path = fixture("python-speedtronic/default.pt");
  const { code, out, err } = await cli(["ckpt", "convert", path, "--to", "checkpoint", "-o", target]);
  expect([code, err]).toEqual([0, ""]);
  expect(out).toContain("whole training state of step");
  expect(out).toContain("without moments in the file, which start at zero:");
  expect((await cli(["ckpt", "verify", target])).code).toBe(0);
  expect((await cli(["ckpt", "diff", path, target])).code).toBe(0);
});
