// Markdown that the generators of docs/ share, in the form that the formatter gives to a file, so that it never
// changes what they make.

export function code(text: string): string {
  return `\`${text}\``;
}

/** Cells may hold bars; line breaks would end a row and do not occur in our tables. */
export function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const cells = [head, ...rows].map((row) => row.map((cell) => cell.replaceAll("|", "\\|")));
  const widths = head.map((_, column) => Math.max(3, ...cells.map((row) => row[column]!.length)));
  const line = (row: readonly string[]): string =>
    `| ${row.map((cell, column) => cell.padEnd(widths[column]!)).join(" | ")} |`;
  const [first, ...others] = cells;
  return [line(first!), line(widths.map((width) => "-".repeat(width))), ...others.map(line)].join("\n");
}
