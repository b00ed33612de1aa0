// How the options of `speedtronic train` reach the configuration and the resume request.

import { describe, expect, it } from "vitest";
import { resumeRequest, trainOverrides } from "../../src/cli/commands/train.js";
import { applyOverrides, effectiveMaxSteps, resolveConfig, scheduleHorizon } from "../../src/config/index.js";

describe("train options", () => {
  it("win over the file, whichever key or alias it uses", () => {
    const file = { max_steps: 10, device: "auto", output_dir: "a", data: { max_steps: 20 } };
    const overrides = trainOverrides({ config: "f", maxSteps: "30", device: "cpu", outputDir: "b" });
    const config = resolveConfig(applyOverrides(file, overrides));
    expect(config.run).toMatchObject({ max_steps: 30, device: "cpu", output_dir: "b" });
    expect([effectiveMaxSteps(config), scheduleHorizon(config)]).toEqual([30, 30]);
  });

  it("leave an explicit end of the schedule alone", () => {
    const overrides = trainOverrides({ config: "f", maxSteps: "30" });
    expect(scheduleHorizon(resolveConfig(applyOverrides({ scheduler: { max_steps: 20 } }, overrides)))).toBe(
      20,
    );
  });

  it("count as not given when empty", () => {
    expect(trainOverrides({ config: "f", device: "", outputDir: "" })).toEqual([]);
  });

  it.each(["-3", "0", "1.5", "many", ""])("refuse --max-steps %j", (maxSteps) => {
    const source = applyOverrides({}, trainOverrides({ config: "f", maxSteps }));
    expect(() => resolveConfig(source)).toThrow(/^--max-steps: run.max_steps: expected a whole number/);
  });

  it.each([
    [undefined, { kind: "none" }],
    [true as const, { kind: "newest" }],
    ["auto", { kind: "auto" }],
    ["runs/a", { kind: "path", path: "runs/a" }],
  ])("read --resume %s", (value, request) => {
    expect(resumeRequest(value)).toEqual(request);
  });
});
