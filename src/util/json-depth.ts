// How deep a JSON text is nested, before anything is made of it: parsing millions of open brackets takes seconds and
// hundreds of megabytes, and whoever walks through the result afterwards runs out of stack.

/** Nothing that clients, nodes and hubs send each other has more than a handful. */
export const MAX_JSON_DEPTH = 32;

/** JSON.parse for the words of strangers. @throws SyntaxError, in whose message nothing of `text` stands. */
export function parseForeignJson(text: string): unknown {
  if (isDeeperThan(text, MAX_JSON_DEPTH))
    throw new SyntaxError(`it is nested more than ${MAX_JSON_DEPTH} deep`);
  try {
    return JSON.parse(text);
  } catch (error) {
    const [place = ""] = / at position \d+/.exec((error as SyntaxError).message) ?? [];
    throw new SyntaxError(`it is no valid JSON${place}`);
  }
}

/** Whether brackets outside of strings are open more than `most` deep at any place. One pass, no syntax check. */
export function isDeeperThan(text: string, most: number): boolean {
  let depth = 0;
  for (let at = 0; at < text.length; at++) {
    const unit = text.charCodeAt(at);
    if (unit === 0x22) at = endOfString(text, at);
    else if (unit === 0x5b || unit === 0x7b) {
      depth += 1;
      if (depth > most) return true;
    } else if (unit === 0x5d || unit === 0x7d) depth -= 1;
  }
  return false;
}

/** Index of the quote that closes the string which opens at `start`; the text's length if none does. */
function endOfString(text: string, start: number): number {
  let at = text.indexOf('"', start + 1);
  while (at >= 0 && isEscaped(text, at, start)) at = text.indexOf('"', at + 1);
  return at < 0 ? text.length : at;
}

function isEscaped(text: string, quote: number, start: number): boolean {
  let at = quote;
  while (at - 1 > start && text.charCodeAt(at - 1) === 0x5c) at -= 1;
  return (quote - at) % 2 === 1;
}
