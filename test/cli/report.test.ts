// `speedtronic report` and `train --profile` as a user gives them; the page itself is tested in test/observe.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, describe, expect, it } from "vitest";
import { cli, sampleText, scratchFolder, writeTinyConfig } from "./harness.js";

const folder = scratchFolder();
const run = (name: string) => join(folder, name);

beforeAll(async () => {
  const config = writeTinyConfig(folder, sampleText, "sampling: {at_end: true, max_new_tokens: 5}");
  const train = (name: string, ...more: string[]) => cli(["train", "-c", config, "-o", run(name), ...more]);
  expect((await train("first", "--profile")).code).toBe(0);
  expect((await train("second", "--set", "optimizer.lr=1e-3")).code).toBe(0);
}, 60_000);

describe("speedtronic report", () => {
  it("writes a page into the run's folder", async () => {
    const { code, out, err } = await cli(["report", run("first")]);
    expect([code, err]).toEqual([0, ""]);
    expect(out).toMatch(/^wrote .*first\/report\.html \(1 run, \d+ kB\)\n$/);
    const page = readFileSync(join(run("first"), "report.html"), "utf8");
    expect(page).toContain("<figcaption>Training loss</figcaption>");
    expect(page).toContain("Where the time went");
    expect(page).toContain("6 of 6");
    expect(page).toContain("optimizer.lr: 0.003");
  });

  it("lays several over one another in the file that is named", async () => {
    const file = join(folder, "compare.html");
    const { code, out } = await cli(["report", run("first"), run("second"), "-o", file, "--json"]);
    expect(code).toBe(0);
    const page = readFileSync(file);
    expect(JSON.parse(out)).toEqual({ path: file, runs: 2, size_bytes: page.length });
    expect(page.toString()).toContain("<td><code>optimizer.lr</code></td><td>0.003</td><td>0.001</td>");
  });

  it("without a run or without metrics says what to do", async () => {
    const missing = await cli(["report", join(folder, "nowhere")]);
    expect([missing.code, missing.out]).toEqual([3, ""]);
    expect(missing.err).toContain("there is no such file or folder");
    const empty = await cli(["report", folder]);
    expect([empty.code, empty.err]).toEqual([3, expect.stringContaining("logging.sinks: [console, jsonl]")]);
    expect((await cli(["report"])).code).toBe(2);
  });
});

describe("speedtronic train --profile", () => {
  it("leaves a trace in the output folder", () => {
    const trace = JSON.parse(readFileSync(join(run("first"), "trace.json"), "utf8")) as { name: string }[];
    expect(trace.filter(({ name }) => /^step \d+$/.test(name))).toHaveLength(6);
    expect(trace.map(({ name }) => name)).toEqual(
      expect.arrayContaining(["optimizer", "checkpoint", "sample"]),
    );
  });
});
