// `speedtronic status`: how a run stands, once or again and again. The report is made by
// src/distributed/node/run-report.ts.

import { type Command, InvalidArgumentError } from "commander";
import type { RunReport } from "../../distributed/node/run-report.js";
import type { CallOptions } from "../../distributed/transports/contract.js";
import { TransportError } from "../../distributed/transports/errors.js";
import { detectTerminal, makePainter } from "../../observe/terminal.node.js";
import type { RunBudget } from "../../train/fleet/commit-budget.js";
import { onStopSignals } from "../../util/signals.node.js";
import type { CliCommand } from "../command.js";
import type { CliContext } from "../context.js";
import { ExitCode } from "../exit-codes.js";

interface StatusFlags {
  readonly watch?: true | number;
  readonly json?: boolean;
}

const DEFAULT_SECONDS = 10;
const LONGEST_WAIT_MS = 300_000;

function seconds(text: string): number {
  const value = Number(text);
  if (text.trim() !== "" && value > 0 && value <= 86_400) return value;
  throw new InvalidArgumentError(
    "Expected a number of seconds above 0, at most a day (the repository comes first).",
  );
}

export const status: CliCommand = {
  configure(command: Command): void {
    command
      .usage("<repo> [options]")
      .argument("<repo>", "org/name on a hub, or file:PATH for a folder that all machines share")
      .option(
        "-w, --watch [seconds]",
        `look again every so many seconds (${DEFAULT_SECONDS}) until Ctrl-C`,
        seconds,
      )
      .option("--json", "print everything as JSON; with --watch one line for every change")
      .description(
        "Show how a run stands: newest version, nodes and how far they are behind, updates that wait, what became of " +
          "the last ones, and the rate of commits where the repository tells it. Downloads no weights.",
      )
      .addHelpText(
        "after",
        `
Examples:
  speedtronic status lab/whale
  speedtronic status lab/whale --watch 30
  speedtronic status file:/mnt/shared/whale --json
`,
      );
  },

  async run(command, context): Promise<number> {
    const [repo] = command.args as [string];
    const { watch, json } = command.opts<StatusFlags>();
    const { openRepository, using } = await import("../open-repository.js");
    const { readCommitBudget } = await import("../../train/fleet/commit-budget.js");
    const { RunReporter } = await import("../../distributed/node/run-report.js");
    const { sha256Hasher } = await import("../../distributed/node/aggregator-disk.node.js");
    return using(openRepository(repo, context), async (transport) => {
      const reporter = new RunReporter({ transport, hasher: sha256Hasher, now: Date.now });
      const print = await printer(context, { isJson: json === true, isWatch: watch !== undefined });
      let seen: Seen | undefined;
      const read: Read = async (options = {}) => {
        const report = await reporter.read(options);
        if (report === seen?.report) return seen;
        seen = { report, budget: await readCommitBudget(transport, report.revision, options) };
        return seen;
      };
      if (watch === undefined) print(await read());
      else await follow(read, print, (watch === true ? DEFAULT_SECONDS : watch) * 1000, context);
      return ExitCode.ok;
    });
  },
};

interface Seen {
  readonly report: RunReport;
  readonly budget: RunBudget;
}
type Read = (options?: CallOptions) => Promise<Seen>;
type Print = (seen: Seen, trouble?: string) => void;

async function printer(
  context: CliContext,
  { isJson, isWatch }: { readonly isJson: boolean; readonly isWatch: boolean },
): Promise<Print> {
  const { formatRunReport, plainReport } = await import("./status-text.js");
  const { formatJson, outputWidth } = await import("./ckpt/format.js");
  const { isLive, hasColor } = detectTerminal(context.stream, context.env, context.isTerminal);
  const paint = makePainter(hasColor);
  let shown: RunReport | undefined;
  return ({ report, budget }, trouble) => {
    // A terminal is redrawn, since ages grow; elsewhere only what is new is worth a line.
    const isNew = report !== shown;
    shown = report;
    const canRedraw = isWatch && isLive && !isJson;
    if (!isNew && !canRedraw) return;
    if (isJson) {
      const plain = plainReport(report, budget);
      context.out(isWatch ? `${JSON.stringify(plain)}\n` : formatJson(plain));
      return;
    }
    const text = formatRunReport(report, {
      width: outputWidth(context),
      nowMs: Date.now(),
      budget,
      paint,
    });
    const clear = canRedraw ? "\x1b[H\x1b[2J" : "";
    context.out(
      `${clear}${text}${isWatch ? `\n${trouble === undefined ? "" : `${paint("yellow", trouble)}\n`}` : ""}`,
    );
  };
}

/** Until a signal, or until nobody reads. What passes by itself is waited for; other errors end it. */
async function follow(read: Read, print: Print, everyMs: number, context: CliContext): Promise<void> {
  const { clockOf } = await import("../../distributed/node/clock.node.js");
  const stop = new AbortController();
  const signals = onStopSignals(() => stop.abort());
  context.onOutputClosed = () => stop.abort();
  const { signal } = stop;
  const clock = clockOf({ keepsAlive: true });
  let last: Seen | undefined;
  let failures = 0;
  try {
    while (!signal.aborted) {
      let waitMs = everyMs;
      try {
        last = await read({ signal });
        failures = 0;
        print(last);
      } catch (error) {
        if (signal.aborted) return;
        if (!(error instanceof TransportError && error.isTransient)) throw error;
        failures++;
        waitMs =
          error.retryAfterMs ??
          Math.min(everyMs * 2 ** Math.min(failures, 20), Math.max(everyMs, LONGEST_WAIT_MS));
        const trouble = `${error.message}; next look in ${Math.ceil(waitMs / 1000)} s`;
        if (last !== undefined && context.isTerminal) print(last, trouble);
        else context.err(`speedtronic: warning: ${trouble}\n`);
      }
      await clock.sleep(waitMs, signal);
    }
  } finally {
    signals.close();
  }
}
