// Text of the `ckpt` tools: sizes, shapes, numbers, tables that fit a terminal. Pure; knows no tool.

import { escapeControls, formatGeneral } from "../../../observe/number-text.js";
import type { CliContext } from "../../context.js";

/** `512 B`, `4.21 kB`, `2.5 GB`: three significant digits, decimal units. */
export function formatBytes(bytes: number): string {
  const units = ["B", "kB", "MB", "GB", "TB", "PB"];
  let value = bytes;
  let unit = 0;
  while (value >= 999.5 && unit < units.length - 1) {
    value /= 1000;
    unit++;
  }
  return `${unit === 0 ? Math.round(value) : Number(value.toPrecision(3))} ${units[unit]}`;
}

/** `1,234,567`. */
export function formatWhole(value: number): string {
  return String(value).replace(/\B(?=(\d{3})+$)/g, ",");
}

/** `[256, 192]`; `[]` is a scalar. */
export function formatShape(shape: readonly number[]): string {
  return `[${shape.join(", ")}]`;
}

/** Three significant digits; `-` for a value that there is not. */
export function formatValue(value: number): string {
  return Number.isNaN(value) ? "-" : formatGeneral(value, 3);
}

export function plural(count: number, noun: string): string {
  return `${formatWhole(count)} ${noun}${count === 1 ? "" : "s"}`;
}

/** Names come from files of strangers: no control characters reach the terminal. */
export function shownName(name: string): string {
  return name === "" ? '""' : escapeControls(name);
}

/** Columns to fill; as many as it takes where the output is no terminal. */
export function outputWidth(context: CliContext): number {
  return context.isTerminal ? Math.max(40, context.stream.columns || 80) : Number.POSITIVE_INFINITY;
}

/** Cut in the middle, where names differ least. */
export function shorten(text: string, width: number): string {
  const characters = [...text];
  if (characters.length <= width) return text;
  const head = Math.ceil((width - 1) / 3);
  return `${characters.slice(0, head).join("")}…${characters.slice(head + 1 - width).join("")}`;
}

export interface Column {
  readonly title: string;
  readonly align: "left" | "right";
  /** Columns of a higher number are left out first where there is no room; 0 always stays. */
  readonly rank?: number;
  /** May be shortened, once all columns that can be left out are. */
  readonly isFlexible?: boolean;
}

const GAP = 2;
const NARROWEST = 12;
/** Share of the width that the flexible column gets before other columns do. */
const FLEXIBLE_SHARE = 0.45;

/** Rows under their titles. Fits `width` by leaving out columns, then by shortening the flexible one. */
export function formatTable(
  columns: readonly Column[],
  rows: readonly (readonly string[])[],
  width: number,
  paintTitle: (text: string) => string = (text) => text,
): string {
  const widths = columns.map(({ title }, i) =>
    Math.max(title.length, ...rows.map((row) => [...(row[i] ?? "")].length)),
  );
  const kept = new Set(columns.map((_, i) => i));
  const least = Math.floor(Math.min(width, 1000) * FLEXIBLE_SHARE);
  const leastOf = (i: number) => (columns[i]!.isFlexible ? Math.min(widths[i]!, least) : widths[i]!);
  const needed = () => [...kept].reduce((sum, i) => sum + leastOf(i) + GAP, -GAP);
  const byRank = [...kept].filter((i) => (columns[i]!.rank ?? 0) > 0);
  byRank.sort((a, b) => columns[b]!.rank! - columns[a]!.rank!);
  for (const i of byRank) {
    if (needed() <= width) break;
    kept.delete(i);
  }
  const flexible = [...kept].find((i) => columns[i]!.isFlexible);
  if (flexible !== undefined) {
    const others = needed() - leastOf(flexible);
    widths[flexible] = Math.min(widths[flexible]!, Math.max(NARROWEST, width - others));
  }
  const line = (cells: readonly string[]) =>
    [...kept]
      .map((i) => {
        const text = columns[i]!.isFlexible ? shorten(cells[i] ?? "", widths[i]!) : (cells[i] ?? "");
        const fill = " ".repeat(Math.max(0, widths[i]! - [...text].length));
        return columns[i]!.align === "right" ? fill + text : text + fill;
      })
      .join(" ".repeat(GAP))
      .trimEnd();
  const titles = columns.some(({ title }) => title !== "")
    ? [paintTitle(line(columns.map(({ title }) => title)))]
    : [];
  return [...titles, ...rows.map(line)].map((text) => `${text}\n`).join("");
}

/** `text` in lines of at most `width` columns; all but the first begin with `indent`. */
export function wrapText(text: string, width: number, indent: string): string {
  const lines: string[] = [];
  let line = "";
  for (const word of text.split(/(?<=\S) (?=\S)/)) {
    const longer = line === "" ? word : `${line} ${word}`;
    if ([...longer].length > width && line !== "") {
      lines.push(line);
      line = indent + word;
    } else line = longer;
  }
  return [...lines, line].join("\n");
}

/** Label and text in two columns. */
export function formatFacts(facts: readonly (readonly [string, string])[]): string {
  const width = Math.max(0, ...facts.map(([label]) => label.length));
  return facts.map(([label, text]) => `${label.padEnd(width)}  ${text}\n`).join("");
}

/** One JSON document; numbers that JSON does not have become texts: "NaN", "Infinity". */
export function formatJson(value: unknown): string {
  const replacer = (_key: string, item: unknown) => {
    if (item instanceof Map) return Object.fromEntries(item);
    return typeof item === "number" && !Number.isFinite(item) ? String(item) : item;
  };
  return `${JSON.stringify(value, replacer, 2)}\n`;
}
