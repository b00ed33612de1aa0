// `speedtronic plan`: what a configuration will need before it is trained. Computed by src/train/plan/.

import { type Command, InvalidArgumentError } from "commander";
import type { CliCommand } from "../command.js";
import { addConfigOptions, type ConfigOptions, readConfig } from "../config-options.js";
import { ExitCode } from "../exit-codes.js";
import type { Speed } from "./plan-text.js";

interface PlanOptions extends ConfigOptions {
  readonly tokensPerSec?: number;
  readonly probe: boolean;
  readonly json?: boolean;
}

function rate(text: string): number {
  const value = Number(text);
  if (text.trim() !== "" && value > 0 && Number.isFinite(value)) return value;
  throw new InvalidArgumentError("Expected a number above 0.");
}

export const plan: CliCommand = {
  configure(command: Command): void {
    addConfigOptions(command);
    command
      .option("-t, --tokens-per-sec <rate>", "the speed to reckon with, instead of measuring it", rate)
      .option("--no-probe", "do not measure the speed; without --tokens-per-sec there is no time then")
      .option("--json", "print it as JSON: bytes, seconds, counts")
      .description(
        "Say what a run will need before it is started: parameters, work per token, memory by kind, disk, tokens, steps, " +
          "and the time it takes, from a few updates on this machine. Opens no data, writes nothing. Memory is an estimate.",
      )
      .addHelpText(
        "after",
        `
Examples:
  speedtronic plan --config configs/demo.yaml
  speedtronic plan --config configs/demo.yaml --set model.n_layer=12 --no-probe
  speedtronic plan --config configs/demo.yaml --tokens-per-sec 20000 --json
`,
      );
  },

  async run(command, context): Promise<number> {
    const options = command.opts<PlanOptions>();
    const config = await readConfig(command, context);
    const { planRun } = await import("../../train/plan/plan-run.js");
    const planned = planRun(config);
    let speed: Speed | undefined;
    if (options.tokensPerSec !== undefined) speed = { tokensPerSec: options.tokensPerSec, source: "given" };
    else if (options.probe) {
      const { probeSpeed } = await import("../../train/plan/probe.js");
      const { tokensPerSec } = await probeSpeed(config, planned.model, planned.graph, planned.batch);
      speed = { tokensPerSec, source: "probed" };
    }
    const { formatPlan, plainPlan } = await import("./plan-text.js");
    const { formatJson } = await import("./ckpt/format.js");
    context.out(
      options.json === true ? formatJson(plainPlan(planned.plan, speed)) : formatPlan(planned.plan, speed),
    );
    return ExitCode.ok;
  },
};
