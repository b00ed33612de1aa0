// A resume must fit wherever the fresh start did: peak memory of real processes, at 50 million parameters.

import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";

import { expect, it } from "vitest";

import { temporaryFolder } from "./fixtures.js";

const largestTensorBytes = 4 * 512 * 1408;

it.skipIf(process.platform !== "linux")(
  "a resume needs no more than a fresh start, 3 % and one tensor",
  async () => {
    const outputDir = join(await temporaryFolder(), "run");
    const peakBytes = async (endStep: number) => {
      const args = [
        "--import",
        "tsx",
        join(import.meta.dirname, "memory-child.ts"),
        outputDir,
        String(endStep),
      ];
      return Number((await promisify(execFile)(process.execPath, args)).stdout);
    };
    const fresh = await peakBytes(1);
    // State alone: parameters, gradients, two moments.
    expect(fresh).toBeGreaterThan(4 * 4 * 50e6);
    for (const endStep of [2, 3])
      expect(await peakBytes(endStep)).toBeLessThan(1.03 * fresh + largestTensorBytes);
  },
);
