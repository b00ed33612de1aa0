// `speedtronic doctor`: options and output. The checks are those of src/train/doctor/.

import type { Command } from "commander";
import type { CliCommand } from "../command.js";
import { addConfigOptions, type ConfigOptions, readConfig } from "../config-options.js";
import { ExitCode } from "../exit-codes.js";

interface DoctorOptions extends ConfigOptions {
  readonly probe: boolean;
  readonly json?: boolean;
}

const marks = { ok: "ok", problem: "PROBLEM", skipped: "skipped" } as const;

export const doctor: CliCommand = {
  configure(command: Command): void {
    addConfigOptions(command);
    command
      .option("--no-probe", "do not run the few updates that tell the speed")
      .option("--json", "print checks and findings as JSON")
      .description(
        "Check everything that a run needs before it is started: settings, data, vocabulary, model, memory, disk, speed, " +
          "and the repository that it shares with other machines. Trains nothing; " +
          "tokenises data.sources into their cache, as training does, and writes nothing else. Exit 1 if it finds a " +
          "problem; each finding says what, where, and what to do.",
      )
      .addHelpText(
        "after",
        `
Examples:
  speedtronic doctor --config configs/smoke.yaml
  speedtronic doctor --config configs/demo.yaml --set run.output_dir=/mnt/runs
  speedtronic doctor --config configs/fleet.yaml --no-probe --json
`,
      );
  },

  async run(command, context): Promise<number> {
    const { probe, json } = command.opts<DoctorOptions>();
    const config = await readConfig(command, context);
    const { diagnose } = await import("../../train/doctor/diagnose.js");
    const { checks, findings } = await diagnose(config, { env: context.env, probes: probe });
    const hasProblem = findings.some(({ severity }) => severity === "problem");
    const { formatFacts, formatJson } = await import("./ckpt/format.js");
    if (json === true) context.out(formatJson({ ok: !hasProblem, checks, findings }));
    else {
      context.out(
        formatFacts(
          checks.map(({ check, status, detail }) => [
            check,
            `${marks[status].padEnd(8)} ${detail}`.trimEnd(),
          ]),
        ),
      );
      for (const { severity, where, what, action } of findings)
        context.out(`\n${severity}: ${where}: ${what}${action === "" ? "" : `\n  ${action}`}\n`);
      const count = findings.filter(({ severity }) => severity === "problem").length;
      context.out(`\n${count === 0 ? "no problems" : `${count} ${count === 1 ? "problem" : "problems"}`}\n`);
    }
    return hasProblem ? ExitCode.failure : ExitCode.ok;
  },
};
