// Text into HTML so that it stays text: every value from a run goes through here.

import { escapeControls } from "../number-text.js";

/** For element content and for attributes in double quotes. */
export function escapeHtml(value: unknown): string {
  return escapeControls(String(value), "\n\t")
    .replaceAll("&", "&amp;")
    .replaceAll("<", "&lt;")
    .replaceAll(">", "&gt;")
    .replaceAll('"', "&quot;")
    .replaceAll("'", "&#39;");
}

/** JSON that may stand in a script element: nothing in it can end the element or begin a comment. */
export function embedJson(value: unknown): string {
  return JSON.stringify(value)
    .replaceAll("<", "\\u003c")
    .replaceAll(">", "\\u003e")
    .replaceAll("&", "\\u0026")
    .replaceAll("\u2028", "\\u2028")
    .replaceAll("\u2029", "\\u2029");
}

/** A table whose cells are HTML already. Numbers stand right if `isNumeric`. */
export function table(head: readonly string[], rows: readonly (readonly string[])[], className = ""): string {
  const cells = (tag: "th" | "td", row: readonly string[]): string =>
    row.map((cell) => `<${tag}${tag === "th" ? ' scope="col"' : ""}>${cell}</${tag}>`).join("");
  const body = rows.map((row) => `<tr>${cells("td", row)}</tr>`).join("\n");
  return `<div class="wide"><table${className === "" ? "" : ` class="${className}"`}>
<thead><tr>${cells("th", head)}</tr></thead>
<tbody>
${body}
</tbody></table></div>`;
}
