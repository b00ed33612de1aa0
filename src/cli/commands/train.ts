// `speedtronic train`: options only. What they ask for is done by run-training.ts.

import type { Command } from "commander";
import type { Override } from "../../config/overrides.js";
import type { InitialWeights } from "../../train/initial-weights.node.js";
import { type CliCommand, collect } from "../command.js";
import { addConfigOptions, type ConfigOptions, optionText, readConfig } from "../config-options.js";
import type { ResumeRequest } from "../run-training.js";

export interface TrainOptions extends ConfigOptions {
  readonly resume?: true | string;
  readonly acceptDifference?: readonly string[];
  readonly init?: string;
  readonly rename?: readonly string[];
  readonly allowMissing?: readonly string[];
  readonly allowUnexpected?: readonly string[];
  readonly allowMismatch?: readonly string[];
  readonly device?: string;
  readonly maxSteps?: string;
  readonly outputDir?: string;
  readonly profile?: true | string;
}

/** `--resume` alone, `--resume auto`, `--resume PATH`, or nothing. */
export function resumeRequest(value: true | string | undefined): ResumeRequest {
  if (value === undefined) return { kind: "none" };
  if (value === true) return { kind: "newest" };
  return value === "auto" ? { kind: "auto" } : { kind: "path", path: value };
}

/** Options as overrides, so that they are checked like any value; an empty text counts as not given. */
export function trainOverrides(options: Partial<TrainOptions>): Override[] {
  const overrides: Override[] = [];
  if (options.outputDir) {
    overrides.push({ path: "run.output_dir", value: options.outputDir, option: "--output-dir" });
  }
  if (options.device) overrides.push({ path: "run.device", value: options.device, option: "--device" });
  if (options.maxSteps !== undefined) {
    const value = /^[-+]?[0-9]+$/.test(options.maxSteps) ? Number(options.maxSteps) : options.maxSteps;
    overrides.push({ path: "run.max_steps", value, option: "--max-steps" });
    // It would win over run.max_steps otherwise, and an option must win over the file.
    overrides.push({ path: "data.max_steps", value: null, option: "--max-steps" });
  }
  return overrides;
}

/** What `--init` and its companions ask for; a companion alone is a usage error. */
async function initialWeightsOf(
  options: TrainOptions,
  command: Command,
): Promise<InitialWeights | undefined> {
  const { init, rename, allowMissing = [], allowUnexpected = [], allowMismatch = [] } = options;
  if (init === undefined) {
    const alone = ["rename", "allowMissing", "allowUnexpected", "allowMismatch"].find(
      (name) => command.getOptionValue(name) !== undefined,
    );
    const flags = command.options.find((option) => option.attributeName() === alone)?.flags;
    if (flags !== undefined) command.error(`error: option '${flags}' needs --init`);
    return undefined;
  }
  const { parseRenameRule } = await import("../../checkpoint/names/index.js");
  const rules = (rename ?? []).map(parseRenameRule);
  return { path: init, rules, allowMissing, allowUnexpected, allowMismatch };
}

export const train: CliCommand = {
  configure(command: Command): void {
    addConfigOptions(command);
    command
      .option(
        "-r, --resume [auto|path]",
        "continue from the newest good checkpoint (exit 4 if there is none); auto: start fresh if there is none; or from a given one",
      )
      .option(
        "--accept-difference <field>",
        "resume although this field of model or node differs, as the refusal names it; may be repeated",
        collect,
      )
      .option("--init <path>", "begin with the weights of this checkpoint folder or safetensors file")
      .option(
        "--rename <rule>",
        "with --init, rename tensors: old=>new, prefix:old.=>new. or pattern:(.*)\\.w=>$1.weight; may be repeated, in order",
        collect,
      )
      .option(
        "--allow-missing <pattern>",
        "with --init, tensors that may keep their drawn values (a.*)",
        collect,
      )
      .option("--allow-unexpected <pattern>", "with --init, tensors that may be left out", collect)
      .option(
        "--allow-mismatch <pattern>",
        "with --init, tensors that may have another shape or dtype",
        collect,
      )
      .option("-d, --device <device>", optionText("run.device"))
      .option("-n, --max-steps <n>", optionText("run.max_steps"))
      .option("-o, --output-dir <folder>", optionText("run.output_dir"))
      .option(
        "--profile [file]",
        "write where the time goes, as a trace that Perfetto opens (default: trace.json in the output folder)",
      )
      .description(
        "Train a model as a configuration file says. Ctrl-C saves and stops; a second one stops at once. " +
          "The last line reads: completed steps=… samples=… tokens=… loss=…",
      )
      .addHelpText(
        "after",
        `
Examples:
  speedtronic train --config configs/smoke.yaml
  speedtronic train --config configs/demo.yaml --set optimizer.lr=1e-3 --output-dir runs/lr-1e-3
  speedtronic train --config configs/demo.yaml --resume --max-steps 3000
  speedtronic train --config configs/demo.yaml --init runs/old --output-dir runs/new
`,
      );
  },

  async run(command, context): Promise<number> {
    const options = command.opts<TrainOptions>();
    const config = await readConfig(command, context, trainOverrides(options));
    const { refuseUnsupported } = await import("../../config/unsupported.js");
    refuseUnsupported(config);
    const { runTraining } = await import("../run-training.js");
    const { acceptDifference: acceptDifferences = [] } = options;
    const initialWeights = await initialWeightsOf(options, command);
    const { profile } = options;
    const request = {
      config,
      resume: resumeRequest(options.resume),
      acceptDifferences,
      ...(profile === undefined ? {} : { profile }),
    };
    return runTraining(initialWeights ? { ...request, initialWeights } : request, context);
  },
};
