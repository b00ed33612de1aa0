// What is written comes back the same, for any values, and never with a secret in it.

import { inspect } from "node:util";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  type ConfigInput,
  formatConfig,
  parseConfigText,
  resolveConfig,
  Secret,
  toPlainConfig,
} from "../../src/config/index.js";
import { ConfigError } from "../../src/util/errors.js";

const TOKEN = "hf_do_not_show_me";

describe("round trip", () => {
  // Texts that other readers, or careless writers, take for something else.
  const word = fc.oneof(
    fc.string({ minLength: 1, unit: "grapheme" }),
    fc.constantFrom(
      "on",
      "no",
      "y",
      "~",
      "null",
      "3e-4",
      "1_000",
      "010",
      "12:30",
      "0x1f",
      "0o7",
      "<<",
      "=",
      "2024-01-01",
    ),
    fc.constantFrom(
      "- a",
      "a: b",
      "# c",
      " lead",
      "trail ",
      "multi\nline\n",
      "tab\t",
      '"quoted"',
      "'",
      "&a",
      "*a",
      "!t",
      "%d",
    ),
  );
  const positive = fc.double({ min: 1e-300, max: 1e300, noNaN: true });
  const input: fc.Arbitrary<ConfigInput> = fc.record({
    run: fc.record({ name: word, output_dir: word, seed: fc.maxSafeInteger() }),
    optimizer: fc.record({ lr: positive, eps: positive }),
    distributed: fc.record({ collaborators: fc.array(word.filter((text) => text.trim() !== "")) }),
    sampling: fc.record({ prompt: word, temperature: positive }),
    compat: fc.record({ text_stride: fc.boolean() }),
  });

  it.each(["yaml", "json"] as const)("%s", (format) => {
    fc.assert(
      fc.property(input, (values) => {
        const config = resolveConfig(values);
        const text = formatConfig(config, format);
        expect(resolveConfig(parseConfigText(text, { format }))).toEqual(config);
        expect(text.endsWith("\n")).toBe(true);
      }),
      { seed: 7, numRuns: 150 },
    );
  });

  it("reads its own result from code, and JSON as YAML", () => {
    const config = resolveConfig({ compat: "python", model: { mlp_width: 96 }, max_steps: 12 });
    expect(resolveConfig(config)).toEqual(config);
    expect(resolveConfig(parseConfigText(formatConfig(config, "json"), { format: "yaml" }))).toEqual(config);
  });

  it("writes small numbers so that YAML 1.1 reads numbers", () => {
    const text = formatConfig(resolveConfig({ optimizer: { eps: 1e-8, lr: 2.5e-7 } }), "yaml");
    expect(text).toContain("\n  eps: 1.0e-8\n");
    expect(text).toContain("\n  lr: 2.5e-7\n");
  });
});

describe("secrets", () => {
  const config = resolveConfig({ distributed: { token: TOKEN, repo_id: "a/b" } });

  it("are there for whoever asks by name", () => {
    expect(config.distributed.token).toBeInstanceOf(Secret);
    expect(config.distributed.token?.reveal()).toBe(TOKEN);
    expect(resolveConfig({ distributed: { token: new Secret(TOKEN) } }).distributed.token?.reveal()).toBe(
      TOKEN,
    );
  });

  it("L-67: appear in no output", () => {
    const outputs = [
      formatConfig(config, "yaml"),
      formatConfig(config, "json"),
      JSON.stringify(toPlainConfig(config)),
      JSON.stringify(config),
      inspect(config, { depth: 9, showHidden: true }),
      `${config.distributed.token}`,
      String(config.distributed.token),
      JSON.stringify(structuredClone(config.distributed.token)),
    ];
    for (const output of outputs) expect(output).not.toContain(TOKEN);
    expect(toPlainConfig(config).distributed).toMatchObject({ token: "<redacted>" });
  });

  it("L-67: read back as unset", () => {
    const again = resolveConfig(parseConfigText(formatConfig(config, "yaml")));
    expect(again.distributed.token).toBeNull();
    expect(again).toEqual({ ...config, distributed: { ...config.distributed, token: null } });
  });

  it.each([
    `distributed: {token: [${TOKEN}]}`,
    `distributed: {token: {a: ${TOKEN}}}`,
    `distributed: {tokn: ${TOKEN}}`,
    `distributed: ${TOKEN}`,
    `token: ${TOKEN}`,
    `distributed: {token: ${TOKEN}\nrun: {}`,
    `distributed:\n  token: "${TOKEN}\n`,
    `distributed:\n  token: ${TOKEN}: x\n`,
    `distributed:\n  token: *${TOKEN.length}\n`,
    `distributed:\n token: ${TOKEN}\n  seed: 1\n`,
  ])("appear in no message: %j", (text) => {
    for (const format of ["yaml", "json"] as const) {
      try {
        resolveConfig(parseConfigText(text, { format, fileName: "f" }));
        expect.unreachable();
      } catch (error) {
        expect(error).toBeInstanceOf(ConfigError);
        expect(inspect(error, { depth: 9 })).not.toContain(TOKEN);
      }
    }
  });
});
