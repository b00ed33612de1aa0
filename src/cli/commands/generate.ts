// `speedtronic generate`: options only. What they ask for is done by run-generation.ts.

import { type Command, InvalidArgumentError } from "commander";
import { type CliCommand, collect, requireOptions } from "../command.js";
import type { GenerateRequest } from "../run-generation.js";

function numberOption(expected: string, accept: (value: number) => boolean): (text: string) => number {
  return (text) => {
    const value = text.trim() === "" ? Number.NaN : Number(text);
    if (!Number.isFinite(value) || !accept(value)) throw new InvalidArgumentError(`Expected ${expected}.`);
    return value;
  };
}

const positiveWhole = numberOption(
  "a whole number greater than 0",
  (value) => Number.isSafeInteger(value) && value > 0,
);
const whole = numberOption("a whole number", Number.isSafeInteger);
const wholeOrNone = numberOption(
  "a whole number of at least 0",
  (value) => Number.isSafeInteger(value) && value >= 0,
);
const notNegative = numberOption("a number of at least 0", (value) => value >= 0);

interface GenerateOptions {
  readonly checkpoint: string;
  readonly prompt: string;
  readonly maxNewTokens: number;
  readonly temperature: number;
  readonly topK: number;
  readonly seed: number;
  readonly plugin?: readonly string[];
}

export const generate: CliCommand = {
  configure(command: Command): void {
    command
      .usage("--checkpoint <path> --prompt <text> [options]")
      .option("-c, --checkpoint <path>", "folder of a run, or of one checkpoint (required)")
      .option("-p, --prompt <text>", "text to continue (required)")
      .option("-n, --max-new-tokens <n>", "length of the continuation in tokens", positiveWhole, 200)
      .option("-t, --temperature <x>", "randomness; 0 always takes the likeliest token", notNegative, 0.8)
      .option("-k, --top-k <k>", "choose among the k likeliest tokens; 0 means all", wholeOrNone, 40)
      .option("--seed <n>", "seed of the choices; the same seed gives the same text", whole, 1234)
      .option(
        "--plugin <module>",
        "module that brings the model, as in plugins of a configuration; may be repeated",
        collect,
      )
      .description(
        "Continue a text with a trained model. The prompt and what follows it go to stdout as they are written.",
      )
      .addHelpText(
        "after",
        `
Examples:
  speedtronic generate --checkpoint runs/demo --prompt "Call me"
  speedtronic generate --checkpoint runs/demo --prompt "The whale" --temperature 0 --max-new-tokens 50
`,
      );
  },

  async run(command, context): Promise<number> {
    requireOptions(command, ["checkpoint", "prompt"]);
    const options = command.opts<GenerateOptions>();
    const { plugin: plugins = [], ...rest } = options;
    const request: GenerateRequest = { ...rest, plugins, topK: options.topK === 0 ? null : options.topK };
    const { runGeneration } = await import("../run-generation.js");
    return runGeneration(request, context);
  },
};
