// `speedtronic init`: options, and what to do next. The set-up itself is done by src/train/fleet/.

import type { Command } from "commander";
import type { CliCommand } from "../command.js";
import { addConfigOptions, type ConfigOptions, readConfig } from "../config-options.js";
import type { CliContext } from "../context.js";
import { ExitCode } from "../exit-codes.js";

interface InitFlags extends ConfigOptions {
  readonly publicOk?: boolean;
  readonly force?: boolean;
}

export const init: CliCommand = {
  configure(command: Command): void {
    addConfigOptions(command);
    command
      .usage("<repo> --config <file> [options]")
      .argument("<repo>", "org/name on a hub, or file:PATH for a folder that all machines share")
      .option("--public-ok", "go on although everybody can read the repository")
      .option("--force", "replace another configuration that is there")
      .description(
        "Set up a run for many machines: make a private repository and put into it what all nodes share, the " +
          "configuration without secrets and machine's own paths, and the fingerprint of the model.",
      )
      .addHelpText(
        "after",
        `
Examples:
  speedtronic init lab/whale --config configs/demo.yaml
  HF_ENDPOINT=http://127.0.0.1:8123 speedtronic init lab/whale --config configs/demo.yaml
  speedtronic init file:/mnt/shared/whale --config configs/demo.yaml --set distributed.inner_steps=100
`,
      );
  },

  async run(command, context): Promise<number> {
    const [repo] = command.args as [string];
    const options = command.opts<InitFlags>();
    const role = { value: "worker", option: "speedtronic init" };
    const config = await readConfig(command, context, [
      { path: "distributed.repo_id", value: repo, option: "<repo>" },
      { path: "distributed.enabled", value: true, option: "speedtronic init" },
      { path: "distributed.role", ...role },
    ]);
    const { refuseUnsupported } = await import("../../config/unsupported.js");
    refuseUnsupported(config);
    const { openConfigured, using } = await import("../open-repository.js");
    const { initRun } = await import("../../train/fleet/init-run.js");
    return using(openConfigured(config.distributed, context), async (transport) => {
      const { isNewRepository, isPublic, isCommitted, revision, paths } = await initRun({
        transport,
        config,
        allowsPublic: options.publicOk === true,
        replaces: options.force === true,
      });
      // Who may read a folder is the affair of its file system.
      const access = repo.startsWith("file:") ? "" : isPublic ? "public " : "private ";
      const verb = isNewRepository ? "made" : "uses";
      context.out(`${verb} the ${access}repository ${transport.title}\n`);
      context.out(
        isCommitted
          ? `committed ${paths.join(", ")} as ${revision.slice(0, 12)}\n`
          : `${paths.join(", ")}: there already, nothing to do\n`,
      );
      const { text_path, dataset, sources } = config.data;
      const hasText = text_path !== null || dataset !== null || sources !== null;
      sayNext(context, repo, options.config, hasText);
      return ExitCode.ok;
    });
  },
};

function sayNext(context: CliContext, repo: string, file: string, needsText: boolean): void {
  const data = needsText ? " --data FILE" : "";
  context.out(
    `next, on one machine:      speedtronic aggregate --config ${file} --set distributed.repo_id=${repo}
next, where it trains:     speedtronic join ${repo}${data}
to watch:                  speedtronic status ${repo} --watch\n`,
  );
}
