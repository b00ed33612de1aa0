// `speedtronic simulate`: a fleet in simulated time, with faults, and a check of what must hold whatever happens.

import { type Command, InvalidArgumentError } from "commander";
import type { CliCommand } from "../command.js";
import { ExitCode } from "../exit-codes.js";

interface SimulateFlags {
  readonly workers: number;
  readonly rounds: number;
  readonly seed: number;
  readonly seeds: number;
  readonly faults: string;
  readonly json?: boolean;
}

function wholeNumber(min: number) {
  return (text: string): number => {
    const value = Number(text);
    if (!/^[0-9]+$/.test(text) || !Number.isSafeInteger(value) || value < min)
      throw new InvalidArgumentError(`Expected a whole number from ${min}.`);
    return value;
  };
}

export const simulate: CliCommand = {
  configure(command: Command): void {
    command
      .option("--workers <n>", "training nodes", wholeNumber(1), 8)
      .option("--rounds <n>", "versions to publish before the faults end", wholeNumber(1), 20)
      .option("--seed <n>", "what decides all that happens", wholeNumber(0), 1)
      .option("--seeds <n>", "so many seeds, from --seed on", wholeNumber(1), 1)
      .option("--faults <names>", "all, none, or names with commas", "all")
      .option("--json", "one report per line")
      .description(
        "Run training nodes and an aggregator in simulated time over a repository in memory, let things go wrong, and " +
          "check that nothing is lost, counted twice or broken. The same seed does the same again. Exit code 1 if an invariant is violated.",
      )
      .addHelpText(
        "after",
        `
Examples:
  speedtronic simulate --workers 8 --rounds 20 --seed 7
  speedtronic simulate --seeds 100 --faults worker-crash,master-crash,ambiguous
`,
      );
  },

  async run(command, context): Promise<number> {
    const {
      workers,
      rounds,
      seed: first,
      seeds,
      faults: names,
      json = false,
    } = command.opts<SimulateFlags>();
    const { FAULT_NAMES, formatReport, parseFaults, replayCommand, simulateFleet } = await import(
      "../../distributed/simulate/index.js"
    );
    const { newSha256 } = await import("../../distributed/node/outbox.node.js");
    const faults = parseFaults(names);
    for (let seed = first; seed < first + seeds; seed++) {
      const report = await simulateFleet({ seed, workers, rounds, faults, newHasher: newSha256 });
      context.out(json ? `${JSON.stringify(report)}\n` : formatReport(report));
      if (report.violations.length === 0) continue;
      context.err(`speedtronic: an invariant is violated with seed ${seed}; the same again:\n`);
      context.err(`  ${replayCommand(report, FAULT_NAMES.length)}\n`);
      return ExitCode.failure;
    }
    return ExitCode.ok;
  },
};
