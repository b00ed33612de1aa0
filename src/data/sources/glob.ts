// Patterns for paths: * and ? within a name, ** across folders, [abc] and {one,other}. The one matcher for files of this
// machine and of a hub. Paths have "/" between names; a name that begins with a dot is matched only by one that does.

/** Whether a text is more than a plain path. */
export function isPattern(text: string): boolean {
  return /[*?[{]/.test(text);
}

/** The folder that all matches lie in, without a slash at the end, and "" for the working directory or the top. */
export function patternRoot(pattern: string): string {
  const names = pattern.split("/");
  const first = names.findIndex(isPattern);
  return names.slice(0, first < 0 ? -1 : first).join("/");
}

/** Matches whole paths. */
export function patternToRegExp(pattern: string): RegExp {
  return new RegExp(`^${expandBraces(pattern).map(bodyOf).join("|")}$`, "u");
}

function bodyOf(pattern: string): string {
  const names = pattern.split("/");
  const parts = names.map((name, i) => {
    const isLast = i === names.length - 1;
    // Any number of folders, none included; at the end whatever lies below.
    if (name === "**") return isLast ? "(?:(?!\\.)[^/]+/)*(?!\\.)[^/]+" : "(?:(?!\\.)[^/]+/)*";
    return nameOf(name) + (isLast ? "" : "/");
  });
  return `(?:${parts.join("")})`;
}

function nameOf(name: string): string {
  // Without this "*" would find what is hidden on purpose.
  let body = /^[*?[]/.test(name) ? "(?!\\.)" : "";
  for (let i = 0; i < name.length; i++) {
    const letter = name[i]!;
    const close = letter === "[" ? name.indexOf("]", i + 2) : -1;
    if (letter === "*") body += "[^/]*";
    else if (letter === "?") body += "[^/]";
    else if (close > 0) {
      const inside = name.slice(i + 1, close).replace(/^!/, "^");
      body += `[${inside.replaceAll(/[\\[\]]/g, "\\$&")}]`;
      i = close;
    } else body += letter.replace(/[\\^$.*+?()[\]{}|/]/, "\\$&");
  }
  return body;
}

/** `a{b,c}d` as `abd` and `acd`; braces may hold braces. */
function expandBraces(pattern: string): string[] {
  const open = pattern.indexOf("{");
  if (open < 0) return [pattern];
  const options: string[] = [];
  let depth = 0;
  let start = open + 1;
  for (let i = open; i < pattern.length; i++) {
    const letter = pattern[i];
    if (letter === "{") depth++;
    else if (letter === "}") depth--;
    if ((letter === "," && depth === 1) || depth === 0) {
      options.push(pattern.slice(start, i));
      start = i + 1;
    }
    if (depth > 0) continue;
    const before = pattern.slice(0, open);
    // One option is no choice: the braces are part of the name.
    if (options.length < 2)
      return expandBraces(pattern.slice(i + 1)).map((rest) => `${before}{${options[0]}}${rest}`);
    return options.flatMap((option) => expandBraces(before + option + pattern.slice(i + 1)));
  }
  return [pattern];
}
