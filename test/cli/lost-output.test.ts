// A full disk under a redirected log: the run and its checkpoints go on without it; other commands say so and fail.

import { spawnSync } from "node:child_process";
import { closeSync, existsSync, mkdtempSync, openSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, describe, expect, it } from "vitest";

const root = fileURLToPath(new URL("../..", import.meta.url));
const folder = mkdtempSync(join(tmpdir(), "speedtronic-lost-output-"));
afterAll(() => rmSync(folder, { recursive: true }));

/** Runs the program with standard output on a device that is always full. */
function runOnFullDisk(args: readonly string[]) {
  const full = openSync("/dev/full", "w");
  const done = spawnSync(process.execPath, ["--import", "tsx", "src/cli/main.ts", ...args], {
    cwd: root,
    stdio: ["ignore", full, "pipe"],
    encoding: "utf8",
  });
  closeSync(full);
  return { code: done.status, err: done.stderr };
}

describe.skipIf(!existsSync("/dev/full"))("standard output on a full disk", () => {
  it("train warns once, goes on to its target and saves", () => {
    const { code, err } = runOnFullDisk(["train", "--config", "configs/smoke.yaml", "--output-dir", folder]);
    expect({ code, err }).toEqual({
      code: 0,
      err: expect.stringMatching(
        /^speedtronic: warning: standard output is lost \(.*ENOSPC.*\); training goes on without it\n$/,
      ),
    });
    expect(readdirSync(join(folder, "checkpoints"))).toContain("step-000000000004");
  });

  it("validate fails with one line", () => {
    const { code, err } = runOnFullDisk(["validate", "--config", "configs/smoke.yaml"]);
    expect({ code, err }).toEqual({
      code: 1,
      err: expect.stringMatching(/^speedtronic: error: cannot write to standard output: .*ENOSPC.*\n$/),
    });
  });
});
