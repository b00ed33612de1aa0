// The JSON Schema for editors: it takes every file that we ship or show and every spelling that reading takes, and marks
// what reading refuses. The validator is zod's reader of JSON Schemas, which knows nothing of ours.

import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { parse } from "yaml";
import * as z from "zod";
import { parseConfigText, resolveConfig, toPlainConfig } from "../../src/config/index.js";
import { configJsonSchema } from "../../src/config/json-schema.js";
import { allKeys } from "../../src/config/key-help.js";
import { pages, root, snippetsOf } from "../docs/snippets.js";

const schema = configJsonSchema();
const validator = z.fromJSONSchema(schema as Parameters<typeof z.fromJSONSchema>[0]);
/** As an editor reads it: YAML 1.2. */
const problems = (text: string) => {
  const { success, error } = validator.safeParse(parse(text));
  return success ? "" : z.prettifyError(error);
};

const folders = ["configs", "examples"].flatMap((folder) =>
  readdirSync(join(root, folder))
    .filter((file) => file.endsWith(".yaml"))
    .map((file) => ({ name: `${folder}/${file}`, text: readFileSync(join(root, folder, file), "utf8") })),
);
const shown = pages()
  .flatMap(snippetsOf)
  .filter(({ language }) => language === "yaml")
  .map(({ place, text }) => ({ name: place, text }));

describe("it takes", () => {
  it.each([...folders, ...shown])("$name", ({ text }) => {
    expect(problems(text)).toBe("");
  });

  it("an empty file, and every key with its default", () => {
    expect(problems("")).toBe("");
    expect(validator.safeParse(toPlainConfig(resolveConfig({}))).success).toBe(true);
  });

  it.each([
    "{name: x, seed: 1, device: cpu, output_dir: runs, max_steps: 5, log_every: null, muon_plus: false, cautious: true}",
    "optimizer: AdamW",
    "precision: fp32",
    "compat: Python",
    "hub: {repo_id: a/b}",
    "diloco: {repo_id: a/b}",
    "run: null",
    "compile: {enabled: true}",
    "compile: null",
    "compile: yes",
    "run: {max_steps: 1_000}",
    "optimizer: {lr: 3e-4, betas: [0.9, 0.99]}",
    "logging: {level: warn}",
    "scheduler: {name: Warmup-Stable-Decay, decay_steps: 10}",
    "shape_validation: {alignment: 8}",
    "shape_validation: {alignment: null}",
    "model: {extra: {norm_eps: 1e-6, anything: [1, {a: b}]}}",
    "optimizer: {muon_routes: {'head.*': adamw}}",
  ])("what reading takes: %s", (text) => {
    expect(() => resolveConfig(parseConfigText(text))).not.toThrow();
    expect(problems(text)).toBe("");
  });
});

describe("it marks what reading refuses", () => {
  it.each([
    "optimiser: {lr: 1}",
    "optimizer: {learning_rate: 1}",
    "optimizer: {lr: 0}",
    "optimizer: {lr: fast}",
    "optimizer: {betas: [0.9]}",
    "optimizer: {name: adam}",
    "optimizer: 5",
    "run: {max_steps: 0}",
    "run: {max_steps: 2.5}",
    "run: {max_steps: null}",
    "run: {name: 3}",
    "run: [1]",
    "data: {shuffle: 1}",
    "compile: {enable: true}",
    "scheduler: {name: polynomial}",
    "scheduler: {min_lr_ratio: 1.5}",
    "distributed: {token: 5}",
    "distributed: {collaborators: x}",
    "shape_validation: {alignment: 0}",
    "compat: {schedule_endpoints: 2}",
    "compat: rust",
  ])("%s", (text) => {
    expect(() => resolveConfig(parseConfigText(text))).toThrow();
    expect(problems(text)).not.toBe("");
  });
});

it("says of every key what it does and what its default is", () => {
  const properties = schema.properties as Record<
    string,
    { anyOf?: { properties?: Record<string, { description?: string; default?: unknown }> }[] }
  >;
  for (const { path, description, default: fallback } of allKeys()) {
    const [section, key] = path.split(".") as [string, string?];
    const found = key === undefined ? properties[section] : properties[section]!.anyOf![0]!.properties![key];
    expect(found, path).toMatchObject({
      description: expect.stringContaining(description),
      default: fallback,
    });
  }
});

it("stands on its own: no reference leads out of it", () => {
  expect(JSON.stringify(schema)).not.toContain("$ref");
});
