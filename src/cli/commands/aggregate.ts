// `speedtronic aggregate`: options only. The outer loop is src/train/run-aggregator.node.ts.

import { type Command, InvalidArgumentError } from "commander";
import type { SpeedtronicConfig } from "../../config/schema.js";
import { onStopSignals } from "../../util/signals.node.js";
import type { CliCommand } from "../command.js";
import { addConfigOptions, type ConfigOptions, readConfig } from "../config-options.js";
import type { CliContext } from "../context.js";
import { exitCodeOfStop } from "../exit-codes.js";

interface AggregateOptions extends Partial<ConfigOptions> {
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
      .usage("<repo>|--config <file> [options]")
      .argument(
        "[repo]",
        "org/name on a hub, or file:PATH for a folder that all machines share; without --config the run's configuration is read there",
      )
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
  speedtronic aggregate lab/whale
  speedtronic aggregate --config run.yaml
  speedtronic aggregate --config run.yaml --set distributed.quorum=4
  speedtronic aggregate --config run.yaml --drain
`,
      );
  },

  async run(command, context): Promise<number> {
    const options = command.opts<AggregateOptions>();
    const config = await chooseConfig(command, context);
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
    } catch (error) {
      // Told to end before the run was open.
      if (!stop.signal.aborted || error !== stop.signal.reason) throw error;
      context.out(`stopped by ${String(error)}\n`);
      return exitCodeOfStop(error);
    } finally {
      signals.close();
    }
  },
};

/** From the file, or from the run's own repository, as `speedtronic join` does. */
async function chooseConfig(command: Command, context: CliContext): Promise<SpeedtronicConfig> {
  const [repo] = command.args as [string?];
  const { config: file, set = [] } = command.opts<AggregateOptions>();
  if (repo === undefined && file === undefined)
    command.error("error: name the run's repository, or a configuration with --config");
  if (repo === undefined) return readConfig(command, context);
  const { openRepository, using } = await import("../open-repository.js");
  if (file !== undefined) {
    return readConfig(command, context, [{ path: "distributed.repo_id", value: repo, option: "<repo>" }]);
  }
  const { readSharedRun } = await import("../../train/fleet/read-run.js");
  const { aggregatorConfig } = await import("../../train/fleet/join-run.js");
  const { formatProblems } = await import("../../config/problem.js");
  const transport = openRepository(repo, context, set);
  const { title } = transport;
  const run = await using(transport, (opened) =>
    readSharedRun(opened, {
      advice: "publish it with speedtronic aggregate --config and a configuration of your own",
    }),
  );
  return await aggregatorConfig(run, {
    repo,
    title,
    overrides: set,
    onWarning: (warning) => context.err(`speedtronic: warning: ${formatProblems([warning])}\n`),
  });
}
