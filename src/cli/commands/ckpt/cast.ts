// `speedtronic ckpt cast`: the same model in another precision.

import { type CliCommand, collect, requireOptions } from "../../command.js";
import { ExitCode } from "../../exit-codes.js";
import { plural, shownName } from "./format.js";
import { addOutputOptions, type OutputFlags, parseDtype } from "./inputs.js";
import { reportWritten, using, withProgress } from "./result.js";

interface CastFlags extends OutputFlags {
  readonly to: "F32" | "F16" | "BF16";
  readonly keep?: readonly string[];
  readonly allowOverflow?: boolean;
}

export const cast: CliCommand = {
  configure(command) {
    addOutputOptions(
      command
        .argument("<model>", "file, folder, run or address")
        .option("--to <dtype>", "bf16, f16 or f32 (required)", parseDtype)
        .option(
          "--keep <pattern>",
          "leave tensors with such names as they are; may be given several times",
          collect,
        )
        .option("--allow-overflow", "let values beyond the range become infinite"),
      "the safetensors file to write",
    )
      .description(
        "Write a model with its floating-point tensors in another precision, rounded to nearest. Integers and " +
          "booleans stay. A value that the new precision cannot hold is an error: f16 ends at 65504.",
      )
      .addHelpText(
        "after",
        `
Examples:
  speedtronic ckpt cast runs/demo --to bf16 -o demo-bf16.safetensors
  speedtronic ckpt cast model.safetensors --to f16 --keep "*norm*" -o model-f16.safetensors
`,
      );
  },

  async run(command, context) {
    requireOptions(command, ["to", "output"]);
    const options = command.opts<CastFlags>();
    const { openTensors } = await import("../../../interchange/tools/open-tensors.node.js");
    const { planCast } = await import("../../../interchange/tools/cast.js");
    const { requireFree, writeSingle } = await import("../../../interchange/tools/output.node.js");
    const { modelPart } = await import("../../../interchange/tools/tensor-set.js");
    const { withAliases } = await import("../../../interchange/tools/alias-reader.js");
    const { matchesPattern } = await import("../../../checkpoint/names/index.js");
    await requireFree(options.output, options.force);
    const set = await openTensors(command.args[0]!);
    return using([set], async () => {
      const keep = options.keep ?? [];
      const plan = planCast(withAliases(modelPart(set), set.aliases), {
        to: options.to,
        isIncluded: (name) => !keep.some((pattern) => matchesPattern(pattern, name)),
        allowOverflow: options.allowOverflow === true,
        onOverflow: (name, count) =>
          context.err(
            `speedtronic: warning: tensor "${shownName(name)}": ${plural(count, "value")} became infinite\n`,
          ),
      });
      const { force, output } = options;
      const written = await withProgress(context, "casting", plan.streams, (onBytes) =>
        writeSingle(output, plan.streams, { force: force === true, metadata: set.metadata, onBytes }),
      );
      const left = plan.streams.length - plan.converted.length;
      reportWritten(context, written, plan.streams.length);
      context.out(
        `${plural(plan.converted.length, "tensor")} cast to ${options.to}${left > 0 ? `, ${left} left as they were` : ""}\n`,
      );
      return ExitCode.ok;
    });
  },
};
