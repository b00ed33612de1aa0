// `speedtronic schema`, and that all help comes from one place: options that set a key say the schema's words, and the
// page of documentation is what the commands print.

import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { configJsonSchema } from "../../src/config/json-schema.js";
import { describeKey } from "../../src/config/key-help.js";
import { cliPath, renderCli } from "../../tools/generate-cli.js";
import { cli } from "./harness.js";

describe("schema", () => {
  it("prints the JSON Schema", async () => {
    const { code, out, err } = await cli(["schema"]);
    expect({ code, err }).toEqual({ code: 0, err: "" });
    expect(JSON.parse(out)).toEqual(configJsonSchema());
  });

  it("says what a key or a section means", async () => {
    expect(await cli(["schema", "scheduler.warmup_steps"])).toEqual({
      code: 0,
      out:
        "scheduler.warmup_steps\n  Steps over which the rate rises linearly to its peak.\n" +
        "  a whole number of at least 0; default 100\n",
      err: "",
    });
    const { out } = await cli(["schema", "scheduler", "--json"]);
    expect((JSON.parse(out) as { path: string }[]).map(({ path }) => path)).toEqual([
      "scheduler.name",
      "scheduler.warmup_steps",
      "scheduler.max_steps",
      "scheduler.min_lr_ratio",
      "scheduler.decay_steps",
      "scheduler.decay_shape",
      "scheduler.moved_end",
    ]);
  });

  it.each([
    ["optimiser.lr", "optimizer.lr"],
    ["warmup_steps", "scheduler.warmup_steps"],
    ["schedulr", "scheduler"],
  ])("answers %s with a suggestion", async (wrong, near) => {
    expect(await cli(["schema", wrong])).toEqual({
      code: 2,
      out: "",
      err: `speedtronic: error: there is no key or section "${wrong}"; did you mean ${near}?\n`,
    });
  });
});

describe("help", () => {
  it.each(["run.device", "run.max_steps", "run.output_dir"])(
    "of train says of %s what the schema says",
    async (path) => {
      const { out } = await cli(["train", "--help"]);
      const flat = (text: string) => text.replace(/\s+/g, " ");
      expect(flat(out)).toContain(flat(`${path}: ${describeKey(path)}`));
    },
  );

  it("of every command stands in docs/cli.md", async () => {
    expect(await renderCli(), "run npx tsx tools/generate-cli.ts").toBe(readFileSync(cliPath, "utf8"));
  });
});
