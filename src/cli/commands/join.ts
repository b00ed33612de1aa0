// `speedtronic join`: options only. The configuration comes from the run's repository (src/train/fleet/), training is that
// of `speedtronic train`.

import type { Command } from "commander";
import type { Override } from "../../config/overrides.js";
import { type CliCommand, collect } from "../command.js";
import { optionText } from "../config-options.js";
import type { CliContext } from "../context.js";
import { type TrainOptions, trainOverrides } from "./train.js";

interface JoinFlags extends Pick<TrainOptions, "set" | "device" | "maxSteps" | "outputDir"> {
  readonly data?: string;
  readonly nodeId?: string;
}

export const join: CliCommand = {
  configure(command: Command): void {
    command
      .usage("<repo> [options]")
      .argument("<repo>", "org/name on a hub, or file:PATH for a folder that all machines share")
      .option("--data <file>", "text file to train on, where the run trains on text")
      .option("-o, --output-dir <folder>", "folder of everything this node writes (default: runs/NAME)")
      .option("-d, --device <device>", optionText("run.device"))
      .option("-n, --max-steps <n>", "optimizer step at which this node ends")
      .option("--node-id <name>", "name of this node (default: a random one, which the output folder keeps)")
      .option(
        "-s, --set <key.path=value>",
        "set one key of this node, as in --set run.threads=2; may be repeated",
        collect,
      )
      .description(
        "Take part in a run that was set up with speedtronic init. Nothing else is needed: the configuration comes from " +
          "the repository. Goes on from the newest checkpoint if the output folder has one. Ctrl-C saves and stops.",
      )
      .addHelpText(
        "after",
        `
Examples:
  speedtronic join lab/whale --data book.txt
  HF_ENDPOINT=http://10.0.0.5:8123 speedtronic join lab/whale --data book.txt --node-id attic
  speedtronic join file:/mnt/shared/whale --data book.txt --output-dir runs/second
`,
      );
  },

  async run(command, context): Promise<number> {
    const [repo] = command.args as [string];
    const options = command.opts<JoinFlags>();
    const overrides: Override[] = [...(options.set ?? []), ...trainOverrides(options)];
    if (options.data !== undefined) {
      overrides.push({ path: "data.text_path", value: options.data, option: "--data" });
    }
    if (options.nodeId !== undefined) {
      overrides.push({ path: "distributed.node_id", value: options.nodeId, option: "--node-id" });
    }
    const { config, isResumed } = await prepare(repo, overrides, context);
    const { runTraining } = await import("../run-training.js");
    const resume = { kind: isResumed ? ("auto" as const) : ("none" as const) };
    return runTraining({ config, resume, resumesByItself: true }, context);
  },
};

async function prepare(repo: string, overrides: readonly Override[], context: CliContext) {
  const warn = (text: string) => context.err(`speedtronic: warning: ${text}\n`);
  const { openRepository, using } = await import("../open-repository.js");
  const { readSharedRun } = await import("../../train/fleet/read-run.js");
  const { hasCheckpoint, joinConfig, measureText, nodeIdOf } = await import("../../train/fleet/join-run.js");
  const { formatProblems } = await import("../../config/problem.js");
  const { formatWhole, plural } = await import("./ckpt/format.js");
  const transport = openRepository(repo, context, overrides);
  const { title } = transport;
  const run = await using(transport, readSharedRun);
  for (const path of run.shared.ignored)
    warn(`${path} in the run's configuration has no effect: it is each machine's own`);
  const config = await joinConfig(run, {
    repo,
    title,
    overrides,
    onWarning: (warning) => warn(formatProblems([warning])),
  });
  const text = await measureText(config);
  const version = run.head === undefined ? "no version yet" : `version ${run.head.record.outerStep}`;
  const isResumed = await hasCheckpoint(config);
  const nodeId = await nodeIdOf(config);
  const data =
    text !== undefined
      ? `${formatWhole(text.tokens)} tokens in ${text.path}`
      : config.data.sources !== null
        ? "the documents of data.sources"
        : `${plural(config.data.num_tokens, "sample")} of random tokens`;
  const verb = isResumed ? "goes on in" : "joins";
  context.out(`${verb} ${title} (${version}) as node ${nodeId}, in ${config.run.output_dir}\n`);
  context.out(`data: ${data}\n`);
  return { config, isResumed };
}
