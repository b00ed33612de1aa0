// `speedtronic ckpt shard`: a model spread over files of a limited size, with an index.

import { type CliCommand, requireOptions } from "../../command.js";
import { ExitCode } from "../../exit-codes.js";
import { addOutputOptions, type OutputFlags, parseSize } from "./inputs.js";
import { reportWritten, using, withProgress } from "./result.js";

interface ShardFlags extends OutputFlags {
  readonly maxSize: number;
}

export const shard: CliCommand = {
  configure(command) {
    addOutputOptions(
      command
        .argument("<model>", "file, folder, run or address")
        .option("--max-size <size>", "most tensor data in one file (default: 5GB)", parseSize),
      "the folder to write into",
    )
      .description(
        "Write a model as model-00001-of-0000N.safetensors … with model.safetensors.index.json, the layout that " +
          "readers of large models know. A tensor larger than the limit has a file of its own.",
      )
      .addHelpText(
        "after",
        `
Examples:
  speedtronic ckpt shard model.safetensors -o sharded/
  speedtronic ckpt shard runs/demo --max-size 500MB -o sharded/
`,
      );
  },

  async run(command, context) {
    requireOptions(command, ["output"]);
    const { output, force = false, maxSize = 5e9 } = command.opts<ShardFlags>();
    const { openTensors } = await import("../../../interchange/tools/open-tensors.node.js");
    const { writeShards } = await import("../../../interchange/tools/output.node.js");
    const { modelPart } = await import("../../../interchange/tools/tensor-set.js");
    const { tensorStreams } = await import("../../../formats/safetensors/index.js");
    const { withAliases } = await import("../../../interchange/tools/alias-reader.js");
    const set = await openTensors(command.args[0]!);
    return using([set], async () => {
      const streams = tensorStreams(withAliases(modelPart(set), set.aliases));
      const written = await withProgress(context, "sharding", streams, (onBytes) =>
        writeShards(output, streams, maxSize, { force, metadata: set.metadata, onBytes }),
      );
      reportWritten(context, written, streams.length);
      return ExitCode.ok;
    });
  },
};
