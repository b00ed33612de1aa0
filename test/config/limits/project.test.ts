// Limits of the Python system as a project, one test each by its number in the list.

import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import * as surface from "speedtronic";
import { describe, expect, test } from "vitest";
import { configurationPath, renderConfiguration } from "../../../tools/generate-configuration.js";
import { differencesPath, renderDifferences } from "../../../tools/generate-differences.js";

const root = fileURLToPath(new URL("../../../", import.meta.url));
const tests = join(root, "test");
const titlesOf = (file: string): string => readFileSync(join(tests, file), "utf8");

/** Topics that had no test there, and where each is tested here: a file, and words of its titles. */
const covered: readonly (readonly [topic: string, file: string, titles: RegExp])[] = [
  ["rotary positions", "nn/layers.test.ts", /cosines and sines of t/],
  ["grouped attention", "nn/layers.test.ts", /grouped heads/],
  ["masks", "nn/reference-transformer.test.ts", /all-true mask/],
  ["causality", "nn/reference-transformer.test.ts", /does not let a position see what follows/],
  ["untied weights", "nn/reference-transformer.test.ts", /tied or not/],
  ["clipping", "engine/local-engine.test.ts", /[Cc]lip/],
  ["the schedule's curve", "schedule/schedule.test.ts", /floor|peak/],
  ["resume equivalence", "train/resume.test.ts", /bit|same/],
  ["errors of training on the command line", "cli/train.test.ts", /not finite: 5/],
  ["the logger", "observe", /MetricLogger|logger/],
  ["hooks", "observe", /hook/],
  ["the registry", "nn/registry.test.ts", /refuses empty and taken names/],
];

describe("the project", () => {
  test("RL-122: pages are made from the tables that the program works with, and their blocks are run", () => {
    // Where they differ, the tests of each page say how.
    expect(readFileSync(configurationPath, "utf8") === renderConfiguration()).toBe(true);
    expect(readFileSync(differencesPath, "utf8") === renderDifferences()).toBe(true);
    expect(titlesOf("docs/readme.test.ts")).toMatch(/\$place runs/);
    expect(titlesOf("docs/readme.test.ts")).toMatch(/\$place loads/);
  });

  test.each(covered)("RL-123: %s has tests", (_, place, titles) => {
    const path = join(tests, place);
    expect(existsSync(path)).toBe(true);
    const files = place.endsWith(".ts")
      ? [place]
      : readdirSync(path)
          .filter((name) => name.endsWith(".test.ts"))
          .map((name) => `${place}/${name}`);
    const found = files.flatMap((file) =>
      [...titlesOf(file).matchAll(/\b(?:it|test|describe)(?:\.each\([\s\S]*?\))?\(\s*["'`]([^"'`]+)/g)].map(
        ([, title]) => title!,
      ),
    );
    expect(found.some((title) => titles.test(title))).toBe(true);
  });

  test("RL-124: the package's own names are these", () => {
    expect(Object.keys(surface).sort()).toEqual([
      "CheckpointError",
      "ConfigError",
      "DataError",
      "InternalError",
      "ModelError",
      "SpeedtronicError",
      "Trainer",
      "TrainingError",
      "buildDataloader",
      "buildModel",
      "buildRuntime",
      "loadConfigFile",
      "parseConfigText",
      "registerModel",
      "resolveConfig",
      "trainFromConfig",
    ]);
  });

  test("RL-125: what is no goal is said, with what one sees instead", () => {
    const page = readFileSync(join(root, "docs", "non-goals.md"), "utf8");
    for (const topic of ["zoo of models", "dashboard", "Open participation"]) expect(page).toContain(topic);
  });
});
