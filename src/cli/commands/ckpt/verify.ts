// `speedtronic ckpt verify`: is anything wrong with these files? Exit code 1 if so.

import type { VerifyReport } from "../../../interchange/tools/verify.node.js";
import { detectTerminal, makePainter } from "../../../observe/terminal.node.js";
import type { CliCommand } from "../../command.js";
import type { CliContext } from "../../context.js";
import { ExitCode } from "../../exit-codes.js";
import { formatBytes, formatJson, outputWidth, plural, shownName, wrapText } from "./format.js";
import { startProgress } from "./progress.js";

interface VerifyFlags {
  readonly all?: boolean;
  readonly values: boolean;
  readonly json?: boolean;
}

/** A broken model has a finding per tensor; nobody reads thousands of them. */
const MOST_LINES = 50;

export const verify: CliCommand = {
  configure(command) {
    command
      .argument("<models...>", "files, folders, runs or addresses")
      .option("--all", "every checkpoint of a run, not only the newest")
      .option("--no-values", "leave out the search for NaN and infinite values")
      .option("--json", "print the findings as JSON")
      .description(
        "Check sizes and SHA-256 hashes (where there is a manifest), structure, ties, and that all values are finite. " +
          "Everything is looked at; all findings are printed. Exit code 1 if there is one.",
      )
      .addHelpText(
        "after",
        `
Examples:
  speedtronic ckpt verify runs/demo
  speedtronic ckpt verify runs/demo --all
  speedtronic ckpt verify model.safetensors --no-values && echo intact
`,
      );
  },

  async run(command, context) {
    const options = command.opts<VerifyFlags>();
    const { checkpointFolders, verifyTensors } = await import("../../../interchange/tools/verify.node.js");
    const reports: VerifyReport[] = [];
    for (const input of command.args) {
      const folders = options.all ? await checkpointFolders(input) : [];
      for (const place of folders.length > 0 ? folders : [input]) {
        const progress = startProgress(context, "verifying");
        try {
          const report = await verifyTensors(place, {
            values: options.values,
            onStart: progress.setTotal,
            onBytes: progress.advance,
          });
          progress.close();
          reports.push(report);
          if (!options.json) context.out(formatReport(report, options, context));
        } finally {
          progress.close();
        }
      }
    }
    if (options.json) context.out(formatJson(reports));
    return reports.some(({ findings }) => findings.length > 0) ? ExitCode.failure : ExitCode.ok;
  },
};

function formatReport(
  { location, findings, checked }: VerifyReport,
  options: VerifyFlags,
  context: CliContext,
): string {
  const { hasColor } = detectTerminal(context.stream, context.env, context.isTerminal);
  const paint = makePainter(hasColor);
  const width = outputWidth(context);
  const place = shownName(location);
  if (findings.length === 0) {
    const looked = [
      `${plural(checked.tensors, "tensor")} in ${plural(checked.files, "file")}, ${formatBytes(checked.sizeBytes)}`,
      ...(checked.hashes > 0 ? ["hashes match"] : []),
      "structure right",
      ...(options.values ? ["all values finite"] : []),
    ];
    const text = wrapText(`${place}: good (${looked.join("; ")})`, width, "  ");
    return `${text.replace(/good(?= \()/, paint("green", "good"))}\n`;
  }
  const lines = findings.slice(0, MOST_LINES).map(({ kind, file, tensor, message }) => {
    const where = tensor === undefined ? file : `${file}, tensor "${tensor}"`;
    const text = wrapText(`  ${kind}  ${shownName(where)}: ${shownName(message)}`, width, "    ");
    return `${text.replace(kind, paint("yellow", kind))}\n`;
  });
  const more =
    findings.length > MOST_LINES ? `  … and ${findings.length - MOST_LINES} more (--json has all)\n` : "";
  const count = plural(findings.length, "finding");
  return `${place}: ${paint("yellow", count)}\n${lines.join("")}${more}`;
}
