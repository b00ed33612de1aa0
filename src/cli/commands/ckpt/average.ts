// `speedtronic ckpt average`: one model out of several of the same shape.

import { InvalidArgumentError } from "commander";
import type { TensorSet } from "../../../interchange/tools/tensor-set.js";
import { formatGeneral } from "../../../observe/number-text.js";
import { ConfigError } from "../../../util/errors.js";
import { type CliCommand, requireOptions } from "../../command.js";
import { ExitCode } from "../../exit-codes.js";
import { plural, shownName } from "./format.js";
import { addOutputOptions, type OutputFlags } from "./inputs.js";
import { reportWritten, using, withProgress } from "./result.js";

interface AverageFlags extends OutputFlags {
  readonly ema?: number;
}

function parseDecay(text: string): number {
  const value = text.trim() === "" ? Number.NaN : Number(text);
  if (!(value > 0 && value < 1)) throw new InvalidArgumentError("Expected a number between 0 and 1.");
  return value;
}

export const average: CliCommand = {
  configure(command) {
    addOutputOptions(
      command
        .argument("<models...>", "at least two, the oldest first")
        .option("--ema <decay>", "exponential moving average instead of the plain mean", parseDecay),
      "the safetensors file to write",
    )
      .description(
        "Average the weights of several models with the same tensors, in float64, rounded once. With --ema the " +
          "average becomes decay × average + (1 − decay) × next, model by model. Integer tensors come from the last.",
      )
      .addHelpText(
        "after",
        `
Examples:
  speedtronic ckpt average runs/a runs/b runs/c -o mean.safetensors
  speedtronic ckpt average runs/demo/checkpoints/step-* --ema 0.9 -o ema.safetensors
`,
      );
  },

  async run(command, context) {
    requireOptions(command, ["output"]);
    const { output, force = false, ema } = command.opts<AverageFlags>();
    const inputs = command.args;
    if (inputs.length < 2) {
      throw new ConfigError("an average needs at least two models", { code: "tools.too_few_models" });
    }
    const { openTensors } = await import("../../../interchange/tools/open-tensors.node.js");
    const { emaWeights, planAverage, uniformWeights } = await import("../../../interchange/tools/average.js");
    const { requireFree, writeSingle } = await import("../../../interchange/tools/output.node.js");
    const { modelPart } = await import("../../../interchange/tools/tensor-set.js");
    const { withAliases } = await import("../../../interchange/tools/alias-reader.js");
    await requireFree(output, force);
    const weights = ema === undefined ? uniformWeights(inputs.length) : emaWeights(inputs.length, ema);
    const sets: TensorSet[] = [];
    return using(sets, async () => {
      for (const input of inputs) sets.push(await openTensors(input));
      const plan = planAverage(
        sets.map((set) => ({
          label: set.location,
          reader: withAliases(modelPart(set), set.aliases),
        })),
        weights,
      );
      const { metadata } = sets.at(-1)!;
      const written = await withProgress(context, "averaging", plan.streams, (onBytes) =>
        writeSingle(output, plan.streams, { force, metadata, onBytes }),
      );
      reportWritten(context, written, plan.streams.length);
      for (const [i, set] of sets.entries())
        context.out(`  ${formatGeneral(weights[i]!, 4).padEnd(8)} ${shownName(set.location)}\n`);
      if (plan.taken.length > 0)
        context.out(`${plural(plan.taken.length, "tensor")} without fractions taken from the last model\n`);
      return ExitCode.ok;
    });
  },
};
