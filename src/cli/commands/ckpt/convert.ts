// `speedtronic ckpt convert`: a model in another form.

import { Option } from "commander";
import { type CliCommand, requireOptions } from "../../command.js";
import { ExitCode } from "../../exit-codes.js";
import { targetForms } from "./convert-forms.js";
import { addOutputOptions, type OutputFlags, parseSize } from "./inputs.js";

interface ConvertFlags extends OutputFlags {
  readonly to: string;
  readonly maxSize?: number;
  readonly config?: string;
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
        .option("--config <file>", "of --to checkpoint: which model bare tensors are"),
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
  speedtronic ckpt convert step_000000000500.pt --to checkpoint -o runs/from-python
  speedtronic ckpt convert pytorch_model.bin --to safetensors -o model.safetensors
`,
      );
  },

  async run(command, context) {
    requireOptions(command, ["to", "output"]);
    const { to, output, force = false, maxSize = 5e9, config } = command.opts<ConvertFlags>();
    const { requireFree } = await import("../../../interchange/tools/output.node.js");
    const form = targetForms.find(({ name }) => name === to)!;
    const isFolder = form.name === "sharded" || form.name === "huggingface";
    if (!isFolder) await requireFree(output, force);
    const request = { input: command.args[0]!, output, force, maxShardBytes: maxSize };
    await form.convert(config === undefined ? request : { ...request, config }, context);
    return ExitCode.ok;
  },
};
