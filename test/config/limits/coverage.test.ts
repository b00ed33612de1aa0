// Every limit of the runtime's list that concerns the model, sizes, configuration, command line and project has a test
// whose title names it.

import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";

const range = (first: number, last: number) => Array.from({ length: last - first + 1 }, (_, i) => first + i);
/** Reference model; configuration and command line; sizes; project and tests. */
const REQUIRED = [...range(61, 73), ...range(90, 109), ...range(122, 125)].map((number) => `RL-${number}`);

const folder = fileURLToPath(new URL("../..", import.meta.url));
/** What `it`, `test`, `describe` and their `each` forms take first. */
const TITLE = /(?:\b(?:it|test|describe)|\))\s*\(\s*(["'`])((?:\\.|(?!\1)[^\\])*)\1/g;

test("every limit of these parts has a test of its name", () => {
  const titled = new Set(
    readdirSync(folder, { recursive: true, encoding: "utf8" })
      .filter((name) => name.endsWith(".test.ts"))
      .flatMap((name) => [...readFileSync(join(folder, name), "utf8").matchAll(TITLE)])
      .flatMap(([, , title]) => title!.match(/\bRL-[0-9]{2,3}\b/g) ?? []),
  );
  expect(REQUIRED.filter((id) => !titled.has(id))).toEqual([]);
});
