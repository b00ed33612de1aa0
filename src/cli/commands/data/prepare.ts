// `speedtronic data prepare`: options and output. The work is done by src/data/prepared/.

import { availableParallelism } from "node:os";
import { type Command, InvalidArgumentError } from "commander";
import { formatCount } from "../../../observe/number-text.js";
import { type CliCommand, requireOptions } from "../../command.js";
import { addConfigOptions, type ConfigOptions, readConfig } from "../../config-options.js";
import { ExitCode } from "../../exit-codes.js";

interface PrepareOptions extends ConfigOptions {
  readonly out: string;
  readonly workers?: number;
  readonly json?: boolean;
}

const reportMs = 5000;

function threads(text: string): number {
  const value = Number(text);
  if (/^[0-9]+$/.test(text.trim()) && value >= 1 && value <= 256) return value;
  throw new InvalidArgumentError("Expected a number of threads from 1 to 256.");
}

export const prepare: CliCommand = {
  configure(command: Command): void {
    addConfigOptions(command);
    command
      .usage("--config <file> --out <folder> [options]")
      .option("-o, --out <folder>", "where the ids go; an empty or new folder (required)")
      .option("-w, --workers <threads>", "threads that tokenise (default: one for each core)", threads)
      .option("--json", "print the result as JSON")
      .description(
        "Tokenise what data.sources or data.text_path names, with the tokenizer of the configuration, into a folder of ids. " +
          "Train from it by naming the folder in data.sources. Equal input gives equal files, whatever the number of " +
          "threads. A folder that holds the same already is left as it is.",
      )
      .addHelpText(
        "after",
        `
Examples:
  speedtronic data prepare --config my-run.yaml --out data/tokens
  speedtronic data prepare --config my-run.yaml --set data.sources=hf://datasets/org/name --out data/name --workers 8
  speedtronic train --config my-run.yaml --set data.sources=data/tokens
`,
      );
  },

  async run(command, context): Promise<number> {
    requireOptions(command, ["config", "out"]);
    const { out, workers = availableParallelism(), json } = command.opts<PrepareOptions>();
    const config = await readConfig(command, context);
    const { prepareData } = await import("../../../train/prepare-data.node.js");
    const started = performance.now();
    let reported = started;
    const { manifest, wasThere } = await prepareData(config, {
      directory: out,
      workers,
      onProgress: ({ documents, tokens }) => {
        const now = performance.now();
        if (now - reported < reportMs) return;
        reported = now;
        const rate = tokens / ((now - started) / 1000);
        context.err(
          `${formatCount(documents)} documents, ${formatCount(tokens)} tokens, ${formatCount(Math.round(rate))} a second\n`,
        );
      },
    });
    const { bad_records: bad, documents, tokens, shards, content_sha256, vocab_size } = manifest;
    for (const { where, reason } of bad.examples) context.err(`left out: ${where}: ${reason}\n`);
    if (json === true) {
      const { formatJson } = await import("../ckpt/format.js");
      const result = { out, was_there: wasThere, documents, tokens, vocab_size, shards: shards.length };
      context.out(formatJson({ ...result, bad_records: bad.count, content_sha256 }));
      return ExitCode.ok;
    }
    const left = bad.count === 0 ? "" : `, ${bad.count} bad records left out`;
    context.out(
      `${wasThere ? "holds this already" : "prepared"}: ${out}: ${formatCount(documents)} documents, ` +
        `${formatCount(tokens)} tokens of ${vocab_size} ids in ${shards.length} ${shards.length === 1 ? "file" : "files"}${left}\n`,
    );
    return ExitCode.ok;
  },
};
