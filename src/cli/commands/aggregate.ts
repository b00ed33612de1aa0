// `speedtronic aggregate`: options only. The outer loop is src/train/run-aggregator.node.ts.

import { type Command, InvalidArgumentError } from "commander";
import { onStopSignals } from "../../util/signals.node.js";
import type { CliCommand } from "../command.js";
import { addConfigOptions, type ConfigOptions, readConfig } from "../config-options.js";
import { exitCodeOfStop } from "../exit-codes.js";

interface AggregateOptions extends ConfigOptions {
  readonly rounds?: number;
  readonly drain?: boolean;
  readonly takeOver?: boolean;
  readonly publicOk?: boolean;
}

function roundCount(text: string): number {
  const rounds = Number(text);
  if (!/^[0-9]+$/.test(text) || !Number.isSafeInteger(rounds) || rounds < 1)
    throw new InvalidArgumentError("Expected a whole number of at least 1.");
  return rounds;
}

export const aggregate: CliCommand = {
  configure(command: Command): void {
    addConfigOptions(command);
    command
      .option("--rounds <n>", "end after so many publications; default: go on until stopped", roundCount)
      .option("--drain", "add up what is there now, without waiting for a quorum, and end")
      .option(
        "--take-over",
        "publish a run that another master publishes, which stops at its next look; also a Python master's, which must be stopped before",
      )
      .option("--public-ok", "begin a run in a repository that everybody can read")
      .description(
        "Publish the versions of a run: add up what its nodes sent, take the outer step, commit. Everything it needs is " +
          "in the repository, so it can be stopped and started anywhere, one at a time.",
      )
      .addHelpText(
        "after",
        `
Examples:
  speedtronic aggregate --config run.yaml
  speedtronic aggregate --config run.yaml --set distributed.quorum=4
  speedtronic aggregate --config run.yaml --drain
`,
      );
  },

  async run(command, context): Promise<number> {
    const options = command.opts<AggregateOptions>();
    const config = await readConfig(command, context);
    const { runAggregator } = await import("../../train/run-aggregator.node.js");
    const stop = new AbortController();
    const signals = onStopSignals((signal) => {
      context.err(
        `${context.isTerminal ? "\n" : ""}speedtronic: ${signal}: ending; nothing is lost, the same command goes on\n`,
      );
      stop.abort(signal);
    });
    context.onOutputClosed = () => stop.abort("output closed");
    try {
      const { outerStep, published } = await runAggregator({
        config,
        rounds: options.rounds,
        drainOnly: options.drain === true,
        takeOver: options.takeOver === true,
        allowPublic: options.publicOk === true,
        signal: stop.signal,
        stream: context.stream,
      });
      const verb = stop.signal.aborted ? `stopped by ${String(stop.signal.reason)}` : "completed";
      context.out(`${verb} outer_step=${outerStep} published=${published}\n`);
      return exitCodeOfStop(stop.signal.aborted ? stop.signal.reason : undefined);
    } finally {
      signals.close();
    }
  },
};
