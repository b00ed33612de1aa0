// `speedtronic ckpt diff`: what differs between two models. Exit code 1 if anything does.

import type { SetDifference, TensorDifference } from "../../../interchange/tools/difference.js";
import { detectTerminal, makePainter } from "../../../observe/terminal.node.js";
import type { CliCommand } from "../../command.js";
import type { CliContext } from "../../context.js";
import { ExitCode } from "../../exit-codes.js";
import {
  formatJson,
  formatShape,
  formatTable,
  formatValue,
  formatWhole,
  outputWidth,
  plural,
  shownName,
} from "./format.js";
import { addFilterOptions, chosenParts, type FilterOptions, parseNonNegative } from "./inputs.js";
import { startProgress } from "./progress.js";

interface DiffOptions extends FilterOptions {
  readonly atol: number;
  readonly rtol: number;
  readonly json?: boolean;
}

export const diff: CliCommand = {
  configure(command) {
    addFilterOptions(command.argument("<a>", "a model").argument("<b>", "the model to compare it with"))
      .option("--atol <x>", "values that differ by at most this are equal", parseNonNegative, 0)
      .option("--rtol <x>", "the same, as a share of b's value", parseNonNegative, 0)
      .option("--json", "print everything as JSON")
      .description(
        "Compare two models tensor by tensor: which are missing, whose shape or dtype differs, and how far values " +
          "lie apart. Forms and dtypes may differ; a checkpoint can be compared with a file made from it. " +
          "Exit code 1 if there is a difference.",
      )
      .addHelpText(
        "after",
        `
The columns for values: the largest |a-b|; the largest |a-b|/max(|a|,|b|); ‖a-b‖/‖b‖; how many values differ.

Examples:
  speedtronic ckpt diff runs/a runs/b
  speedtronic ckpt diff runs/a model.safetensors --rtol 1e-6
  speedtronic ckpt diff before.safetensors after.safetensors --only "*attn*"
`,
      );
  },

  async run(command, context) {
    const options = command.opts<DiffOptions>();
    const { openTensors } = await import("../../../interchange/tools/open-tensors.node.js");
    const { withAliases } = await import("../../../interchange/tools/alias-reader.js");
    const { compareTensors, isSame } = await import("../../../interchange/tools/difference.js");
    const [pathA, pathB] = command.args as [string, string];
    const a = await openTensors(pathA);
    try {
      const b = await openTensors(pathB);
      const progress = startProgress(context, "comparing");
      try {
        const partsA = await chosenParts(a, options);
        const partsB = await chosenParts(b, options);
        const results = new Map<string, SetDifference>();
        let total = 0;
        for (const part of new Set([...partsA.keys(), ...partsB.keys()])) {
          const readers = [a, b].map((set, i) => {
            const reader = (i === 0 ? partsA : partsB).get(part);
            // A tensor that one side has under a tied name only is not missing there.
            if (reader === undefined || options.only !== undefined) return reader;
            return part === "model" ? withAliases(reader, set.aliases) : reader;
          });
          const [readerA = emptyReader, readerB = emptyReader] = readers;
          total += [...readerA.entries.values()].reduce((sum, { sizeBytes }) => sum + sizeBytes, 0);
          progress.setTotal(total);
          results.set(
            part,
            await compareTensors(readerA, readerB, {
              absoluteTolerance: options.atol,
              relativeTolerance: options.rtol,
              onBytes: progress.advance,
            }),
          );
        }
        progress.close();
        const isEqual = [...results.values()].every(isSame);
        if (options.json) context.out(formatJson(toJson(a.location, b.location, results)));
        else context.out(formatResults(a.location, b.location, results, options, context));
        return isEqual ? ExitCode.ok : ExitCode.failure;
      } finally {
        progress.close();
        await b.close();
      }
    } finally {
      await a.close();
    }
  },
};

const nothing = async (): Promise<never> => {
  throw new RangeError("there are no tensors here");
};
/** Stands for a part that one side does not have. */
const emptyReader = {
  entries: new Map(),
  entry: (): never => {
    throw new RangeError("there are no tensors here");
  },
  read: nothing,
  readRange: nothing,
  readInto: nothing,
  chunks: async function* () {},
  close: async () => {},
};

function formatResults(
  a: string,
  b: string,
  results: ReadonlyMap<string, SetDifference>,
  options: DiffOptions,
  context: CliContext,
): string {
  const { hasColor } = detectTerminal(context.stream, context.env, context.isTerminal);
  const paint = makePainter(hasColor);
  const width = outputWidth(context);
  const head = `a  ${shownName(a)}\nb  ${shownName(b)}\n`;
  const sections: string[] = [];
  for (const [part, { onlyInA, onlyInB, different, sameCount }] of results) {
    const of = results.size > 1 ? `${part}: ` : "";
    for (const [where, entries] of [
      ["only in a", onlyInA],
      ["only in b", onlyInB],
    ] as const) {
      if (entries.length === 0) continue;
      const rows = entries.map(({ name, dtype, shape }) => [
        `  ${shownName(name)}`,
        dtype,
        formatShape(shape),
      ]);
      sections.push(
        `\n${paint("bold", `${of}${where} (${entries.length})`)}\n${formatTable(nameColumns, rows, width)}`,
      );
    }
    const kinds = different.filter(({ isShapeEqual, isDtypeEqual }) => !isShapeEqual || !isDtypeEqual);
    if (kinds.length > 0) {
      const rows = kinds.map(({ name, a: x, b: y }) => [
        `  ${shownName(name)}`,
        `${x.dtype} ${formatShape(x.shape)}`,
        `${y.dtype} ${formatShape(y.shape)}`,
      ]);
      const table = formatTable(kindColumns, rows, width, (text) => paint("gray", text));
      sections.push(`\n${paint("bold", `${of}another shape or dtype (${kinds.length})`)}\n${table}`);
    }
    const values = different.filter((item) => item.values !== undefined);
    if (values.length > 0) {
      const table = formatTable(valueColumns, values.map(valueRow), width, (text) => paint("gray", text));
      sections.push(`\n${paint("bold", `${of}other values (${values.length})`)}\n${table}`);
    }
    const tolerance = options.atol + options.rtol > 0 ? " within the tolerance" : "";
    const all = sameCount + different.length + onlyInA.length + onlyInB.length;
    const verdict =
      sameCount === all ? paint("green", "no difference") : `${formatWhole(sameCount)} the same`;
    sections.push(`\n${of}${plural(all, "tensor")}: ${verdict}${tolerance}\n`);
  }
  return head + sections.join("");
}

const nameColumns = [
  { title: "", align: "left", isFlexible: true },
  { title: "", align: "left" },
  { title: "", align: "left" },
] as const;
const kindColumns = [
  { title: "  name", align: "left", isFlexible: true },
  { title: "a", align: "left" },
  { title: "b", align: "left" },
] as const;
const valueColumns = [
  { title: "  name", align: "left", isFlexible: true },
  { title: "max abs", align: "right" },
  { title: "max rel", align: "right" },
  { title: "rel norm", align: "right", rank: 2 },
  { title: "differ", align: "right", rank: 1 },
] as const;

function valueRow({ name, values }: TensorDifference): string[] {
  const { maxAbsolute, maxRelative, relativeNorm, changed, count } = values!;
  const share = changed === count ? "all" : `${formatWhole(changed)} of ${formatWhole(count)}`;
  return [
    `  ${shownName(name)}`,
    formatValue(maxAbsolute),
    formatValue(maxRelative),
    formatValue(relativeNorm),
    share,
  ];
}

function toJson(a: string, b: string, results: ReadonlyMap<string, SetDifference>): unknown {
  const entry = ({ name, dtype, shape }: { name: string; dtype: string; shape: readonly number[] }) => ({
    name,
    dtype,
    shape,
  });
  const parts = [...results].map(([part, { onlyInA, onlyInB, different, sameCount }]) => [
    part,
    {
      same: sameCount,
      onlyInA: onlyInA.map(entry),
      onlyInB: onlyInB.map(entry),
      different: different.map((item) => ({
        name: item.name,
        a: { dtype: item.a.dtype, shape: item.a.shape },
        b: { dtype: item.b.dtype, shape: item.b.shape },
        values: item.values ?? null,
      })),
    },
  ]);
  return { a, b, parts: Object.fromEntries(parts) };
}
