// Finds the first place where a text stops being JSON. JSON.parse says whether, but not dependably where, and its
// messages quote the text around the fault, which may hold a secret.

export interface SyntaxFault {
  /** Index into the text, in UTF-16 units. */
  readonly offset: number;
  readonly message: string;
}

const ESCAPE = /\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})/y;
const LITERAL = /(?:true|false|null|-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?)(?![\w.+-])/y;
const BLANK = /[ \t\r\n]*/y;
const MAX_DEPTH = 100;

class Fault extends Error {
  constructor(
    readonly offset: number,
    message: string,
  ) {
    super(message);
  }
}

export function findJsonFault(text: string): SyntaxFault | undefined {
  let at = 0;

  function skip(pattern: RegExp): boolean {
    pattern.lastIndex = at;
    if (!pattern.test(text)) return false;
    at = pattern.lastIndex;
    return true;
  }

  function skipString(): boolean {
    if (text[at] !== '"') return false;
    for (at++; text[at] !== '"'; ) {
      if (text[at] === "\\") {
        if (!skip(ESCAPE)) throw new Fault(at, "unknown escape; write \\\\ for a backslash");
      } else if (at >= text.length || text.charCodeAt(at) < 0x20) {
        throw new Fault(at, "the closing quote is missing");
      } else at++;
    }
    at++;
    return true;
  }

  function take(symbol: string): boolean {
    skip(BLANK);
    if (text[at] !== symbol) return false;
    at++;
    return true;
  }

  function fail(message: string): never {
    skip(BLANK);
    throw new Fault(at, at >= text.length ? `${message}, but the text ends` : message);
  }

  function list(close: string, depth: number, item: () => void): void {
    if (depth > MAX_DEPTH) fail("nested too deeply");
    if (take(close)) return;
    do {
      skip(BLANK);
      if (text[at] === close) fail(`a comma must not stand before "${close}"`);
      item();
    } while (take(","));
    if (!take(close)) fail(`expected a comma or "${close}"`);
  }

  function value(depth: number): void {
    if (take("{")) {
      list("}", depth, () => {
        if (!skipString()) fail("expected a key in double quotes");
        if (!take(":")) fail('expected ":" after the key');
        value(depth + 1);
      });
    } else if (take("[")) {
      list("]", depth, () => value(depth + 1));
    } else if (!skipString() && !skip(LITERAL)) {
      fail("expected a value: text in double quotes, a number, true, false, null, a list or a mapping");
    }
  }

  try {
    value(0);
    skip(BLANK);
    if (at < text.length) fail("expected nothing after the first value");
    return undefined;
  } catch (error) {
    if (error instanceof Fault) return { offset: error.offset, message: error.message };
    throw error;
  }
}
