// `speedtronic ckpt stats`: what the values of every tensor look like. Reads every byte once.

import type { TensorStatistics } from "../../../interchange/tools/statistics.js";
import { detectTerminal, makePainter } from "../../../observe/terminal.node.js";
import type { CliCommand } from "../../command.js";
import type { CliContext } from "../../context.js";
import { ExitCode } from "../../exit-codes.js";
import {
  formatBytes,
  formatJson,
  formatShape,
  formatTable,
  formatValue,
  formatWhole,
  outputWidth,
  plural,
  shownName,
  wrapText,
} from "./format.js";
import { addFilterOptions, chosenParts, type FilterOptions } from "./inputs.js";
import { startProgress } from "./progress.js";

interface StatsOptions extends FilterOptions {
  readonly json?: boolean;
}

const HISTOGRAM_COLUMNS = 16;

export const stats: CliCommand = {
  configure(command) {
    addFilterOptions(command.argument("<model>", "file, folder, run or address"))
      .option("--json", "print everything as JSON, histograms as counts")
      .description(
        "Print min, max, mean, standard deviation and norm of every tensor, how many values are NaN or infinite, " +
          "and a small histogram from min to max. A model of any size takes a few megabytes of memory.",
      )
      .addHelpText(
        "after",
        `
Examples:
  speedtronic ckpt stats runs/demo
  speedtronic ckpt stats runs/demo --part optimizer --only "*.exp_avg_sq"
  speedtronic ckpt stats model.safetensors --json > stats.json
`,
      );
  },

  async run(command, context) {
    const options = command.opts<StatsOptions>();
    const { openTensors } = await import("../../../interchange/tools/open-tensors.node.js");
    const { tensorStatistics } = await import("../../../interchange/tools/statistics.js");
    const { totalsOf } = await import("../../../interchange/tools/summary.js");
    const set = await openTensors(command.args[0]!);
    const progress = startProgress(context, "reading");
    try {
      const parts = await chosenParts(set, options);
      const totals = totalsOf([...parts.values()].flatMap((reader) => [...reader.entries.values()]));
      progress.setTotal(totals.sizeBytes);
      const found: { part: string; statistics: TensorStatistics }[] = [];
      for (const [part, reader] of parts) {
        const run = tensorStatistics(reader, undefined, {
          histogramColumns: HISTOGRAM_COLUMNS,
          onBytes: progress.advance,
        });
        for await (const statistics of run) found.push({ part, statistics });
      }
      progress.close();
      if (options.json) {
        context.out(formatJson({ location: set.location, tensors: found.map(toJson) }));
        return ExitCode.ok;
      }
      const withPart = parts.size > 1;
      context.out(
        formatStatistics(
          found.map(({ part, statistics }) => ({
            name: (withPart ? `${part}/` : "") + shownName(statistics.entry.name),
            statistics,
          })),
          context,
        ),
      );
      const line = closing(
        found.map(({ statistics }) => statistics),
        totals.sizeBytes,
      );
      context.out(`\n${wrapText(line, outputWidth(context), "  ")}\n`);
      return ExitCode.ok;
    } finally {
      progress.close();
      await set.close();
    }
  },
};

interface Row {
  readonly name: string;
  readonly statistics: TensorStatistics;
}

function formatStatistics(rows: readonly Row[], context: CliContext): string {
  const { hasColor, hasUnicode } = detectTerminal(context.stream, context.env, context.isTerminal);
  const paint = makePainter(hasColor);
  const hasStrange = rows.some(({ statistics }) => strangeText(statistics) !== "");
  return formatTable(
    [
      { title: "name", align: "left", isFlexible: true },
      { title: "dtype", align: "left", rank: 5 },
      { title: "shape", align: "left", rank: 6 },
      { title: "min", align: "right" },
      { title: "max", align: "right" },
      { title: "mean", align: "right", rank: 3 },
      { title: "std", align: "right", rank: 1 },
      { title: "norm", align: "right", rank: 4 },
      { title: "histogram", align: "left", rank: 2 },
      ...(hasStrange ? [{ title: "not finite", align: "left" as const }] : []),
    ],
    rows.map(({ name, statistics }) => {
      const { entry, min, max, mean, std, norm, histogram } = statistics;
      return [
        name,
        entry.dtype,
        formatShape(entry.shape),
        ...[min, max, mean, std, norm].map(formatValue),
        sparkline(histogram, hasUnicode),
        strangeText(statistics),
      ];
    }),
    outputWidth(context),
    (text) => paint("gray", text),
  );
}

function strangeText({ nan, positiveInfinite, negativeInfinite, isDecoded }: TensorStatistics): string {
  if (!isDecoded) return "packed, not looked at";
  const counts = [
    [nan, "NaN"],
    [positiveInfinite, "inf"],
    [negativeInfinite, "-inf"],
  ] as const;
  return counts
    .filter(([count]) => count > 0)
    .map(([count, what]) => `${formatWhole(count)} ${what}`)
    .join(", ");
}

/** Heights relative to the fullest part; any value at all is visible. */
function sparkline(histogram: readonly number[], hasUnicode: boolean): string {
  const marks = hasUnicode
    ? ["▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"]
    : [".", ":", "-", "=", "+", "*", "#", "@"];
  const most = Math.max(...histogram, 1);
  return histogram
    .map((count) =>
      count === 0 ? " " : marks[Math.min(marks.length - 1, Math.floor((count / most) * marks.length))]!,
    )
    .join("");
}

function closing(all: readonly TensorStatistics[], sizeBytes: number): string {
  const strange = all.reduce((sum, s) => sum + s.nan + s.positiveInfinite + s.negativeInfinite, 0);
  const values = all.reduce((sum, s) => sum + s.count, 0);
  const norm = Math.sqrt(all.reduce((sum, s) => sum + (Number.isNaN(s.norm) ? 0 : s.norm ** 2), 0));
  const verdict = strange === 0 ? "all finite" : `${plural(strange, "value")} not finite`;
  return `${plural(all.length, "tensor")}, ${plural(values, "value")}, ${formatBytes(sizeBytes)}: ${verdict}, norm of all ${formatValue(norm)}`;
}

function toJson({ part, statistics }: { part: string; statistics: TensorStatistics }): unknown {
  const { entry, ...rest } = statistics;
  return { part, name: entry.name, dtype: entry.dtype, shape: entry.shape, ...rest };
}
