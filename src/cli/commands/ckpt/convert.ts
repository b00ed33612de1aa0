// `speedtronic ckpt convert`: a model in another form.

import { Option } from "commander";
import { ConfigError } from "../../../util/errors.js";
import { type CliCommand, requireOptions } from "../../command.js";
import { ExitCode } from "../../exit-codes.js";
import { targetForms } from "./convert-forms.js";
import { addOutputOptions, type OutputFlags, parseCount, parseSize } from "./inputs.js";

interface ConvertFlags extends OutputFlags {
  readonly to: string;
  readonly maxSize?: number;
  readonly config?: string;
  readonly context?: number;
}

const width = Math.max(...targetForms.map(({ name }) => name.length));

export const convert: CliCommand = {
  configure(command) {
    addOutputOptions(
      command
        .argument("<model>", "file, folder, run or address")
        .addOption(
          new Option("--to <form>", "form of the output, see below (required)").choices(
            targetForms.map(({ name }) => name),
          ),
        )
        .option(
          "--max-size <size>",
          "of --to sharded: most tensor data in one file (default: 5GB)",
          parseSize,
        )
        .option("--config <file>", "of --to checkpoint: which model bare tensors are")
        .option(
          "--context <n>",
          "of --to checkpoint from a Hugging Face folder: positions to build the model for, at most those it was " +
            "made for (default: max_position_embeddings of its config.json); fewer take less memory to generate",
          parseCount,
        ),
      "file or folder to write",
    )
      .description(
        "Write a model in another form. What the input is, it says itself: a checkpoint or run, safetensors (one " +
          "file or sharded), a PyTorch file, a Hugging Face folder, an address. Code in a file is never run.",
      )
      .addHelpText(
        "after",
        `
Forms:
${targetForms.map(({ name, summary }) => `  ${name.padEnd(width)}  ${summary}`).join("\n")}

Examples:
  speedtronic ckpt convert runs/demo --to safetensors -o demo.safetensors
  speedtronic ckpt convert runs/demo --to huggingface -o demo-hf/
  speedtronic ckpt convert downloads/SmolLM-135M --to checkpoint -o smollm/
  speedtronic ckpt convert downloads/Qwen2-0.5B --context 2048 --to checkpoint -o qwen2/
  speedtronic ckpt convert step_000000000500.pt --to checkpoint -o runs/from-python
  speedtronic ckpt convert pytorch_model.bin --to safetensors -o model.safetensors
`,
      );
  },

  async run(command, context) {
    requireOptions(command, ["to", "output"]);
    const {
      to,
      output,
      force = false,
      maxSize = 5e9,
      config,
      context: contextLength,
    } = command.opts<ConvertFlags>();
    const { requireFree } = await import("../../../interchange/tools/output.node.js");
    const form = targetForms.find(({ name }) => name === to)!;
    if (contextLength !== undefined && form.name !== "checkpoint")
      throw new ConfigError("--context belongs to --to checkpoint; leave it out", {
        code: "tools.context_unused",
        details: { contextLength, to },
      });
    const isFolder = form.name === "sharded" || form.name === "huggingface";
    if (!isFolder) await requireFree(output, force);
    const request = {
      input: command.args[0]!,
      output,
      force,
      maxShardBytes: maxSize,
      ...(config !== undefined && { config }),
      ...(contextLength !== undefined && { contextLength }),
    };
    await form.convert(request, context);
    return ExitCode.ok;
  },
};
