// Every known limit of the Python system that concerns runs of many nodes has a test whose title names it, or a row
// below that says why there is nothing to test.

import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";

const range = (first: number, last: number) => Array.from({ length: last - first + 1 }, (_, i) => first + i);
const REQUIRED = [...range(1, 75), 95, 99, ...range(102, 105)].map(
  (number) => `L-${String(number).padStart(2, "0")}`,
);

/** Limits that cannot occur here, and why. In order. */
const NOT_OURS: readonly (readonly [id: string, reason: string])[] = [
  [
    "L-60",
    "who may write takes part: there are no signatures of nodes; lengths are clipped (L-06), hashes compared (L-61)",
  ],
];

const folder = fileURLToPath(new URL("../..", import.meta.url));
/** What `it`, `test`, `describe` and their `each` forms take first. */
const TITLE = /(?:\b(?:it|test|describe)|\))\s*\(\s*(["'`])((?:\\.|(?!\1)[^\\])*)\1/g;

/** The first line of a scripted story, which is the title of its test. */
const STORY_TITLE = /^(#) (.*)/g;

const titledIds = new Set(
  readdirSync(folder, { recursive: true, encoding: "utf8" })
    .flatMap((name) => {
      const title = name.endsWith(".test.ts")
        ? TITLE
        : /transcripts.[^/]*\.txt$/.test(name)
          ? STORY_TITLE
          : undefined;
      return title === undefined ? [] : [...readFileSync(join(folder, name), "utf8").matchAll(title)];
    })
    .flatMap(([, , title]) => title!.match(/\bL-[0-9]{2,3}\b/g) ?? []),
);

test("every known limit has a test of its name, or a reason for none", () => {
  const excused = new Set(NOT_OURS.map(([id]) => id));
  expect(REQUIRED.filter((id) => !titledIds.has(id) && !excused.has(id))).toEqual([]);
});

describe("the table of reasons", () => {
  const ids = NOT_OURS.map(([id]) => id);

  test("is in order, and names limits of the list only", () => {
    expect(ids).toEqual(REQUIRED.filter((id) => ids.includes(id)));
  });

  test("gives no reason for what is tested, and a sentence for everything else", () => {
    expect(ids.filter((id) => titledIds.has(id))).toEqual([]);
    for (const [id, reason] of NOT_OURS) expect(reason.length, id).toBeGreaterThan(20);
  });
});
