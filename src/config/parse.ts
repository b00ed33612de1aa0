// Text to tree: YAML or JSON, with the place of every key and value. Scalars are read by our own rules
// (scalars.ts), so the YAML library is asked for structure only. Syntax errors end here, since nothing after them
// can be trusted; duplicate keys are collected with all other problems.

import {
  isAlias,
  isMap,
  isScalar,
  isSeq,
  LineCounter,
  type Node,
  parseDocument,
  type Scalar,
  type YAMLMap,
} from "yaml";
import { findJsonFault } from "./json-syntax.js";
import { type ConfigProblem, configError, type Location } from "./problem.js";
import { resolvePlainScalar } from "./scalars.js";
import type { TreeField, TreeNode } from "./tree.js";

export type ConfigFormat = "yaml" | "json";

export interface ParsedTree {
  readonly tree: TreeNode;
  readonly problems: readonly ConfigProblem[];
}

export interface ParseOptions {
  readonly format: ConfigFormat;
  readonly fileName?: string | undefined;
  /** Place given to everything in the text, instead of lines and columns. */
  readonly location?: Location | undefined;
}

// Aliases can make a small file expand without bound; no real configuration comes near this.
const MAX_NODES = 5_000;
const MAX_DEPTH = 64;

// The library's own messages may quote the file, which may hold a secret.
const SYNTAX_MESSAGES: Readonly<Record<string, string>> = {
  BAD_ALIAS: "an alias (*name) must follow its anchor (&name)",
  BAD_DQ_ESCAPE: "unknown escape in double quotes; write \\\\ for a backslash, or use single quotes",
  BAD_INDENT: "the indentation does not fit the lines above, or a bracket above is not closed",
  BAD_SCALAR_START: "a value cannot begin with this character; put it in quotes",
  BLOCK_AS_IMPLICIT_KEY: "a mapping cannot begin here; a value with a colon needs quotes",
  BLOCK_IN_FLOW: "an indented block cannot stand inside brackets",
  MISSING_CHAR: "a closing quote or bracket, a comma, a colon or a blank is missing",
  MULTILINE_IMPLICIT_KEY: "a key must fit on one line; is a colon missing?",
  MULTIPLE_DOCS: "a second document begins here; a configuration is one document",
  TAB_AS_INDENT: "a tab cannot indent; use spaces",
};

function lineAndColumn(text: string, offset: number): { line: number; column: number } {
  const before = text.slice(0, offset).split("\n");
  return { line: before.length, column: (before.at(-1) as string).length + 1 };
}

/** @throws ConfigError naming the file, line and column of each syntax error. */
export function parseTree(text: string, options: ParseOptions): ParsedTree {
  const { format, fileName } = options;
  const problems: ConfigProblem[] = [];
  const lines = new LineCounter();
  const file = fileName === undefined ? {} : { file: fileName };

  const place = (offset: number): Location => {
    if (options.location !== undefined) return options.location;
    const { line, col } = lines.linePos(offset);
    return { kind: "file", line: Math.max(line, 1), column: Math.max(col, 1) };
  };
  const problem = (code: string, location: Location, message: string, path = ""): ConfigProblem => ({
    code,
    path,
    message,
    location,
    ...file,
  });

  if (format === "json" && text.trim() !== "") {
    const fault = findJsonFault(text);
    if (fault !== undefined) {
      const location = options.location ?? { kind: "file" as const, ...lineAndColumn(text, fault.offset) };
      throw configError([problem("config.syntax", location, `not valid JSON: ${fault.message}`)]);
    }
  }

  const document = parseDocument(text, {
    schema: "failsafe",
    version: "1.2",
    uniqueKeys: false,
    prettyErrors: false,
    lineCounter: lines,
  });
  if (document.errors.length > 0) {
    throw configError(
      document.errors.map((error) =>
        problem(
          "config.syntax",
          place(error.pos[0]),
          `not valid YAML: ${SYNTAX_MESSAGES[error.code] ?? "this cannot stand here"}`,
        ),
      ),
    );
  }

  let visited = 0;
  let depth = 0;

  function readScalar(node: Scalar, location: Location, path: string): unknown {
    const written = String(node.value ?? "");
    if (node.tag === "tag:yaml.org,2002:str" || node.tag === "!") return written;
    if (node.tag !== undefined && !/^tag:yaml\.org,2002:(?:int|float|bool|null)$/.test(node.tag)) {
      problems.push(
        problem("config.tag", location, "has a YAML tag that is not allowed; write the plain value", path),
      );
      return undefined;
    }
    return node.type === "PLAIN" || node.tag !== undefined ? resolvePlainScalar(written) : written;
  }

  function readList(items: readonly unknown[], path: string): unknown[] {
    return items.map((item) => plain(read(item as Node | null, path)));
  }

  function plain(node: TreeNode): unknown {
    if (node.fields === undefined) return node.value;
    return Object.fromEntries(node.fields.map(({ key, node: child }) => [key, plain(child)]));
  }

  function readMap(map: YAMLMap, path: string, location: Location): TreeNode {
    const own = new Map<string, TreeField>();
    const merged: TreeField[] = [];
    for (const pair of map.items) {
      const keyNode = isAlias(pair.key) ? pair.key.resolve(document) : pair.key;
      const at = place((pair.key as Node | null)?.range?.[0] ?? map.range?.[0] ?? 0);
      if (!isScalar(keyNode)) {
        problems.push(problem("config.key", at, "a key must be a word, not a list or mapping", path));
        continue;
      }
      const key = typeof keyNode.value === "string" ? keyNode.value : (keyNode.source ?? "");
      const childPath = path === "" ? key : `${path}.${key}`;
      const node = read(pair.value as Node | null, childPath, at);
      if (key === "<<" && keyNode.type === "PLAIN") {
        const sources = isSeq(pair.value) ? pair.value.items.map((item) => read(item as Node, path)) : [node];
        for (const source of sources) merged.push(...(source.fields ?? []));
        continue;
      }
      const first = own.get(key);
      if (first === undefined) {
        own.set(key, { key, node, location: at });
        continue;
      }
      const line = first.location?.kind === "file" ? ` (first in line ${first.location.line})` : "";
      problems.push(
        problem("config.duplicate_key", at, `is given twice${line}; keep one of the two`, childPath),
      );
    }
    for (const field of merged) if (!own.has(field.key)) own.set(field.key, field);
    return { value: undefined, fields: [...own.values()], location };
  }

  function read(node: Node | null | undefined, path: string, fallback?: Location): TreeNode {
    const location = node?.range ? place(node.range[0]) : (fallback ?? place(0));
    if (++visited > MAX_NODES || depth >= MAX_DEPTH) {
      throw configError([problem("config.too_large", location, "nested too deeply, or too many values")]);
    }
    const target = isAlias(node) ? node.resolve(document) : node;
    if (isAlias(node) && target === undefined) {
      problems.push(
        problem("config.alias", location, `there is no anchor &${node.source} before this alias`, path),
      );
      return { value: undefined, location };
    }
    depth++;
    try {
      if (isMap(target)) return readMap(target, path, location);
      if (isSeq(target)) return { value: readList(target.items, path), location };
      if (isScalar(target)) return { value: readScalar(target, location, path), location };
      return { value: null, location };
    } finally {
      depth--;
    }
  }

  return { tree: read(document.contents as Node | null, ""), problems };
}
