// `speedtronic ckpt merge`: one file out of a sharded set.

import { type CliCommand, requireOptions } from "../../command.js";
import { ExitCode } from "../../exit-codes.js";
import { addOutputOptions, type OutputFlags } from "./inputs.js";
import { reportWritten, using, withProgress } from "./result.js";

export const merge: CliCommand = {
  configure(command) {
    addOutputOptions(
      command.argument("<model>", "index of a sharded set, or its folder"),
      "the safetensors file to write",
    )
      .description("Write a model that is spread over several files as one safetensors file.")
      .addHelpText(
        "after",
        `
Examples:
  speedtronic ckpt merge downloads/model -o model.safetensors
  speedtronic ckpt merge model.safetensors.index.json -o model.safetensors
`,
      );
  },

  async run(command, context) {
    requireOptions(command, ["output"]);
    const { output, force = false } = command.opts<OutputFlags>();
    const { openTensors } = await import("../../../interchange/tools/open-tensors.node.js");
    const { requireFree, writeSingle } = await import("../../../interchange/tools/output.node.js");
    const { modelPart } = await import("../../../interchange/tools/tensor-set.js");
    const { tensorStreams } = await import("../../../formats/safetensors/index.js");
    const { withAliases } = await import("../../../interchange/tools/alias-reader.js");
    await requireFree(output, force);
    const set = await openTensors(command.args[0]!);
    return using([set], async () => {
      const streams = tensorStreams(withAliases(modelPart(set), set.aliases));
      const written = await withProgress(context, "merging", streams, (onBytes) =>
        writeSingle(output, streams, { force, metadata: set.metadata, onBytes }),
      );
      reportWritten(context, written, streams.length);
      return ExitCode.ok;
    });
  },
};
