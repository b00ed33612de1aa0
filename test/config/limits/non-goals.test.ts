// docs/non-goals.md says what is not here and what one sees instead: every row is tried, and its answer compared.

import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { parseConfigText, resolveConfig, type SpeedtronicConfig } from "speedtronic";
import { describe, expect, it } from "vitest";
import { collectUnsupported, formatUnsupported } from "../../../src/config/unsupported.js";
import { buildConfiguredModel } from "../../../src/train/configured-model.js";
import { resolvePrecision } from "../../../src/train/precision.js";
import { cli } from "../../cli/harness.js";

interface Row {
  readonly limits: readonly number[];
  readonly what: string;
  readonly attempt: string;
  readonly seen: string;
}

const text = readFileSync(fileURLToPath(new URL("../../../docs/non-goals.md", import.meta.url)), "utf8");
const bare = (cell: string): string => cell.trim().replace(/^`|`$/g, "");

const rows: readonly Row[] = text
  .split("\n")
  .filter((line) => /^\| [0-9]/.test(line))
  .map((line) => {
    const [, limits, what, attempt, seen] = line.split("|") as [string, string, string, string, string];
    return {
      limits: limits.split(",").map(Number),
      what: what.trim(),
      attempt: bare(attempt),
      seen: bare(seen),
    };
  });

/** Everything that checks, and the start of a run, say of a configuration. */
function answersTo(attempt: string): string {
  let config: SpeedtronicConfig;
  try {
    config = resolveConfig(parseConfigText(attempt));
  } catch (error) {
    return (error as Error).message;
  }
  const { refusals, notices } = collectUnsupported(config);
  const answers = [...refusals, ...notices].map(formatUnsupported);
  answers.push(resolvePrecision(config.precision).reason);
  try {
    buildConfiguredModel(config);
  } catch (error) {
    answers.push((error as Error).message);
  }
  return answers.join("\n");
}

describe("docs/non-goals.md", () => {
  it("has at most 25 rows, each with something to try", () => {
    expect(rows.length).toBeGreaterThan(10);
    expect(rows.length).toBeLessThanOrEqual(25);
    expect(rows.every(({ attempt, seen }) => attempt !== "" && seen.length > 8)).toBe(true);
  });

  it("names every limit that the list calls a non-goal", () => {
    const named = new Set(rows.flatMap(({ limits }) => limits));
    expect([17, 32, 51, 60, 72, 121, 125].filter((limit) => !named.has(limit))).toEqual([]);
  });

  it.each(rows)("$what: $attempt", async ({ attempt, seen }) => {
    const answer = attempt.startsWith("speedtronic ")
      ? (await cli(attempt.split(" ").slice(1))).err
      : answersTo(attempt);
    expect(answer).toContain(seen);
  });
});
