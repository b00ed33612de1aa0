// `speedtronic verify`: is a run what its repository says it is? The work is done by src/distributed/node/run-verify.ts.

import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Command } from "commander";
import type { RunCheck, VersionCheck } from "../../distributed/node/run-verify.js";
import { detectTerminal, makePainter } from "../../observe/terminal.node.js";
import type { CliCommand } from "../command.js";
import type { CliContext } from "../context.js";
import { ExitCode } from "../exit-codes.js";
import { formatJson, outputWidth, plural, shownName, wrapText } from "./ckpt/format.js";
import { startProgress } from "./ckpt/progress.js";

interface VerifyFlags {
  readonly json?: boolean;
}

export const verify: CliCommand = {
  configure(command: Command): void {
    command
      .usage("<repo> [options]")
      .argument("<repo>", "org/name on a hub, or file:PATH for a folder that all machines share")
      .option("--json", "print the verdicts as JSON")
      .description(
        "Compute every version of a run again that can be: from its parent's weights and momentum, its deltas and their " +
          "weights, as the ledger has them. Compare the hashes. Exit code 1 if one differs. Needs room for a few " +
          "copies of the model in the system's folder for temporary files.",
      )
      .addHelpText(
        "after",
        `
Examples:
  speedtronic verify lab/whale
  speedtronic verify file:/mnt/shared/whale --json
`,
      );
  },

  async run(command, context): Promise<number> {
    const [repo] = command.args as [string];
    const { json } = command.opts<VerifyFlags>();
    const { openRepository, using } = await import("../open-repository.js");
    const { verifyRun } = await import("../../distributed/node/run-verify.js");
    const { diskSurroundings } = await import("../../distributed/node/aggregator-disk.node.js");
    const transport = openRepository(repo, context);
    const folder = await mkdtemp(join(tmpdir(), "speedtronic-verify-"));
    const progress = startProgress(context, "verifying");
    try {
      const surroundings = await diskSurroundings(folder);
      const check = await using(transport, () =>
        verifyRun({
          transport,
          surroundings,
          onTotal: progress.setTotal,
          onBytes: progress.advance,
        }),
      );
      progress.close();
      context.out(json ? formatJson(plainCheck(check)) : formatCheck(check, context));
      return isGood(check) ? ExitCode.ok : ExitCode.failure;
    } finally {
      progress.close();
      await rm(folder, { recursive: true, force: true });
    }
  },
};

function isGood({ documents, versions }: RunCheck): boolean {
  return documents.length === 0 && versions.every(({ verdict }) => verdict.kind !== "differs");
}

function formatCheck(check: RunCheck, context: CliContext): string {
  const { title, outerStep, documents, versions } = check;
  const { hasColor } = detectTerminal(context.stream, context.env, context.isTerminal);
  const paint = makePainter(hasColor);
  const width = outputWidth(context);
  const lines = [shownName(title)];
  for (const problem of documents) {
    const text = wrapText(`DIFFERS: ${shownName(problem)}`, width, "    ");
    lines.push(text.replace("DIFFERS", paint("yellow", "DIFFERS")));
  }
  const digits = String(versions.at(-1)?.outerStep ?? 0).length;
  for (const version of versions) {
    const text = wrapText(
      `version ${String(version.outerStep).padStart(digits)}  ${verdictText(version)}`,
      width,
      "    ",
    );
    lines.push(
      text
        .replace("DIFFERS", paint("yellow", "DIFFERS"))
        .replace(/ verified(?= )/, ` ${paint("green", "verified")}`),
    );
  }
  if (outerStep !== undefined && versions.length === 0)
    lines.push(
      wrapText(
        `version ${outerStep}  cannot be verified: its master publishes no history of rounds`,
        width,
        "    ",
      ),
    );
  lines.push(wrapText(summary(check), width, "  "));
  return lines.map((line) => `${line}\n`).join("");
}

function verdictText({ verdict, deltas }: VersionCheck): string {
  if (verdict.kind === "verified") return `verified from ${plural(deltas, "delta")}`;
  if (verdict.kind === "unverifiable") return `cannot be verified: ${shownName(verdict.reason)}`;
  return `DIFFERS: ${shownName(verdict.differences.join("; "))}`;
}

function summary({ outerStep, documents, versions }: RunCheck): string {
  const count = (kind: VersionCheck["verdict"]["kind"]) =>
    versions.filter(({ verdict }) => verdict.kind === kind).length;
  const [verified, differing, rest] = [count("verified"), count("differs"), count("unverifiable")];
  if (outerStep === undefined && documents.length === 0)
    return "nothing could be verified: there is no version yet";
  const parts = [
    verified === 0 ? "nothing could be verified" : `${plural(verified, "version")} verified`,
    ...(differing > 0 ? [`${plural(differing, "version")} DIFFER${differing === 1 ? "S" : ""}`] : []),
    ...(documents.length > 0 ? [`${plural(documents.length, "difference")} in the run's documents`] : []),
    ...(rest > 0 ? [`${rest} cannot be`] : []),
  ];
  return parts.join(", ");
}

function plainCheck({ title, revision, outerStep, documents, versions }: RunCheck): Record<string, unknown> {
  return {
    repository: title,
    revision,
    outer_step: outerStep ?? null,
    documents,
    versions: versions.map(({ outerStep: version, deltas, verdict }) => ({
      outer_step: version,
      deltas,
      verdict: verdict.kind,
      reason: verdict.kind === "unverifiable" ? verdict.reason : null,
      differences: verdict.kind === "differs" ? verdict.differences : [],
    })),
  };
}
