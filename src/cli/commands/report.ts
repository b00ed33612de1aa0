// `speedtronic report`: the metrics of runs as one page to look at and to send. Reading and drawing are in
// src/observe/report/.

import type { Command } from "commander";
import type { CliCommand } from "../command.js";

export const report: CliCommand = {
  configure(command: Command): void {
    command
      .usage("<run...> [options]")
      .argument("<run...>", "folders that runs write to, or their metrics files")
      .option(
        "-o, --output <file>",
        "page to write (default: report.html in the folder of the only run, or here)",
      )
      .option("--json", "print what was written as JSON")
      .description(
        "Write one HTML page with the curves, samples and settings of one run, or of several over one another. It needs " +
          "no network and no other file, so it can be sent. An existing page is replaced.",
      )
      .addHelpText(
        "after",
        `
Examples:
  speedtronic report runs/demo
  speedtronic report runs/adamw runs/muon -o compare.html
`,
      );
  },

  async run(command, context): Promise<number> {
    const paths = command.args;
    const { output, json } = command.opts<{ output?: string; json?: boolean }>();
    const { dirname, join, relative } = await import("node:path");
    const { readRuns } = await import("../../observe/report/read-run.node.js");
    const { renderReport } = await import("../../observe/report/page.js");
    const { writeFileAtomically } = await import("../../util/atomic-file.node.js");
    const runs = await readRuns(paths);
    const [only] = runs;
    const file = output ?? join(runs.length === 1 && only ? dirname(only.path) : ".", "report.html");
    const page = renderReport(runs, { madeAt: new Date() });
    await writeFileAtomically(file, page);
    const sizeBytes = Buffer.byteLength(page);
    if (json) context.out(`${JSON.stringify({ path: file, runs: runs.length, size_bytes: sizeBytes })}\n`);
    else
      context.out(
        `wrote ${relative(".", file)} (${runs.length === 1 ? "1 run" : `${runs.length} runs`}, ${Math.ceil(sizeBytes / 1000)} kB)\n`,
      );
    return 0;
  },
};
