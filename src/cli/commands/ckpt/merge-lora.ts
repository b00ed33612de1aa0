// `speedtronic ckpt merge-lora`: adapters added to the weights under them, as one model.

import { type CliCommand, collect, requireOptions } from "../../command.js";
import { ExitCode } from "../../exit-codes.js";
import { addOutputOptions, type OutputFlags } from "./inputs.js";

interface MergeLoraFlags extends OutputFlags {
  readonly base?: string;
  readonly plugin?: readonly string[];
}

export const mergeLora: CliCommand = {
  configure(command) {
    addOutputOptions(
      command
        .argument("<adapters>", "a run or checkpoint that was trained with lora.rank")
        .option("--base <path>", "where the weights under the adapters are now (default: lora.base)")
        .option("--plugin <module>", "module that brings the model; may be repeated", collect),
      "the weights-only checkpoint to write",
    )
      .description(
        "Add adapters to the weights that they were trained on, and write the result as a model without adapters: " +
          "for generation, as initial weights, and to convert further.",
      )
      .addHelpText(
        "after",
        `
Examples:
  speedtronic ckpt merge-lora runs/tuned -o tuned/
  speedtronic ckpt merge-lora runs/tuned --base downloads/smollm -o tuned/
  speedtronic ckpt convert tuned/ --to huggingface -o tuned-hf/
`,
      );
  },

  async run(command, context) {
    requireOptions(command, ["output"]);
    const { output, force = false, base, plugin: plugins = [] } = command.opts<MergeLoraFlags>();
    const { mergeAdapters } = await import("../../../train/merge-adapters.node.js");
    const { formatBytes, plural, shownName } = await import("./format.js");
    const { merged, sizeBytes, skipped } = await mergeAdapters(command.args[0]!, output, {
      overwrite: force,
      plugins,
      ...(base !== undefined && { base }),
    });
    for (const { path, reason } of skipped)
      context.err(`speedtronic: warning: passed over ${shownName(path)}: ${reason}\n`);
    context.out(
      `wrote ${shownName(output)}: weights-only checkpoint, ${plural(merged, "adapter")} merged, ${formatBytes(sizeBytes)}\n`,
    );
    return ExitCode.ok;
  },
};
