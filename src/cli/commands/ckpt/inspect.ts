// `speedtronic ckpt inspect`: the names, dtypes, shapes and sizes in a model. Reads headers only.

import type { TensorEntry, TensorReader } from "../../../formats/safetensors/index.js";
import type { NameNode, Totals } from "../../../interchange/tools/summary.js";
import type { TensorSet } from "../../../interchange/tools/tensor-set.js";
import { detectTerminal, makePainter } from "../../../observe/terminal.node.js";
import type { CliCommand } from "../../command.js";
import type { CliContext } from "../../context.js";
import { ExitCode } from "../../exit-codes.js";
import {
  formatBytes,
  formatFacts,
  formatJson,
  formatShape,
  formatTable,
  formatWhole,
  outputWidth,
  plural,
  shorten,
  shownName,
} from "./format.js";
import { addFilterOptions, chosenParts, type FilterOptions } from "./inputs.js";

interface InspectOptions extends FilterOptions {
  readonly all?: boolean;
  readonly json?: boolean;
}

export const inspect: CliCommand = {
  configure(command) {
    addFilterOptions(command.argument("<model>", "file, folder, run or address"))
      .option("--all", "list every layer, also where layers are alike")
      .option("--json", "print everything as JSON")
      .description(
        "Print what is in a model: the tree of names with dtypes, shapes and sizes, the metadata, and totals. " +
          "Only headers are read, also of an address: a model of any size is inspected at once.",
      )
      .addHelpText(
        "after",
        `
Examples:
  speedtronic ckpt inspect runs/demo
  speedtronic ckpt inspect runs/demo --part all
  speedtronic ckpt inspect model.safetensors --only "layers.0.*" --all
  speedtronic ckpt inspect https://host/path/model.safetensors --json
`,
      );
  },

  async run(command, context) {
    const options = command.opts<InspectOptions>();
    const { openTensors } = await import("../../../interchange/tools/open-tensors.node.js");
    const set = await openTensors(command.args[0]!);
    try {
      const parts = await chosenParts(set, options);
      const summary = await import("../../../interchange/tools/summary.js");
      if (options.json) {
        context.out(formatJson(toJson(set, parts, summary.totalsOf)));
        return ExitCode.ok;
      }
      context.out(formatHead(set, context));
      for (const [name, reader] of parts) {
        const tree = summary.nameTree(reader.entries.values(), options.all !== true);
        const title = set.parts.size > 1 ? `${name}: ` : "";
        context.out(`\n${formatPart(title, tree, summary.totalsOf(reader.entries.values()), context)}`);
      }
      const hidden = [...set.parts.keys()].filter((name) => !parts.has(name));
      if (hidden.length > 0) context.out(`\nnot shown: ${hidden.join(", ")} (--part all)\n`);
      return ExitCode.ok;
    } finally {
      await set.close();
    }
  },
};

const formNames = {
  safetensors: "safetensors file",
  sharded: "sharded safetensors",
  checkpoint: "checkpoint",
  torch: "PyTorch file",
} as const;

function formatHead(set: TensorSet, context: CliContext): string {
  const fileBytes = set.files.reduce((sum, file) => sum + file.sizeBytes, 0);
  const transferred = set.transferredBytes?.();
  const width = outputWidth(context);
  const limit = (text: string) => shorten(shownName(text), Math.max(20, width - 12));
  const ties = Object.entries(set.aliases).map(
    ([alias, name]) => ["tied", limit(`${alias} = ${name}`)] as const,
  );
  return formatFacts([
    ["model", limit(set.location)],
    ["form", `${formNames[set.form]}, ${formatBytes(fileBytes)}`],
    ...set.facts,
    ...(transferred === undefined
      ? []
      : [["read", `${formatBytes(transferred)} of ${formatBytes(fileBytes)}`] as const]),
    ...[...set.metadata].map(([key, value]) => ["metadata", limit(`${key} = ${value}`)] as const),
    ...ties,
  ]);
}

function formatPart(title: string, tree: readonly NameNode[], totals: Totals, context: CliContext): string {
  const { hasColor, hasUnicode } = detectTerminal(context.stream, context.env, context.isTerminal);
  const paint = makePainter(hasColor);
  const kinds = totals.dtypes.map(({ dtype, sizeBytes }) => `${dtype} ${formatBytes(sizeBytes)}`).join(", ");
  const summary = `${title}${plural(totals.tensors, "tensor")}, ${plural(totals.elements, "element")}, ${kinds || "0 B"}`;
  const rows = [...treeRows(tree, "", "", 1, hasUnicode)];
  const table = formatTable(
    [
      { title: "name", align: "left", isFlexible: true },
      { title: "dtype", align: "left" },
      { title: "shape", align: "left" },
      { title: "elements", align: "right", rank: 1 },
      { title: "size", align: "right" },
    ],
    rows,
    outputWidth(context),
    (text) => paint("gray", text),
  );
  return `${paint("bold", summary)}\n${rows.length === 0 ? "" : table}`;
}

/** A line for each node; numbers of folded siblings are those of all of them together. */
function* treeRows(
  nodes: readonly NameNode[],
  indent: string,
  prefix: string,
  times: number,
  hasUnicode: boolean,
): Generator<string[], void, undefined> {
  const [tee, corner, bar] = hasUnicode ? ["├─ ", "└─ ", "│  "] : ["|- ", "`- ", "|  "];
  const isTop = prefix === "" && indent === "";
  for (const [i, node] of nodes.entries()) {
    const isLast = i === nodes.length - 1;
    const repeats = times * node.repeats;
    const label = shownName(node.label) + (node.repeats > 1 ? `  ×${node.repeats}` : "");
    const name = isTop ? label : indent + (isLast ? corner : tee) + label;
    yield [name, ...cells(node.entry, repeats)];
    const below = isTop ? "" : indent + (isLast ? "   " : bar);
    yield* treeRows(node.children, below, `${prefix}.`, repeats, hasUnicode);
  }
}

function cells(entry: TensorEntry | undefined, times: number): string[] {
  if (entry === undefined) return ["", "", "", ""];
  const elements = entry.shape.reduce((product, size) => product * size, 1);
  return [
    entry.dtype,
    formatShape(entry.shape),
    formatWhole(elements * times),
    formatBytes(entry.sizeBytes * times),
  ];
}

function toJson(
  set: TensorSet,
  parts: ReadonlyMap<string, TensorReader>,
  totalsOf: (entries: Iterable<TensorEntry>) => Totals,
): unknown {
  const describe = (reader: TensorReader) => ({
    totals: totalsOf(reader.entries.values()),
    tensors: [...reader.entries.values()].map(({ name, dtype, shape, sizeBytes }) => ({
      name,
      dtype,
      shape,
      sizeBytes,
    })),
  });
  const transferred = set.transferredBytes?.();
  return {
    location: set.location,
    form: set.form,
    files: set.files,
    metadata: set.metadata,
    aliases: set.aliases,
    ...(set.checkpoint === undefined
      ? {}
      : {
          checkpoint: {
            step: set.checkpoint.step,
            runId: set.checkpoint.runId,
            createdAt: set.checkpoint.createdAt,
            kind: set.checkpoint.manifest.kind,
            fingerprint: set.checkpoint.manifest.fingerprint,
          },
        }),
    ...(transferred === undefined ? {} : { transferredBytes: transferred }),
    parts: Object.fromEntries([...parts].map(([name, reader]) => [name, describe(reader)])),
  };
}
