// Configuration text to source: structure from the parser, then aliases and shorthands.

import { type ConfigFormat, parseTree } from "./parse.js";
import { ConfigSource, readTree } from "./source.js";

/**
 * Reads a configuration given as text. `fileName` is only for messages.
 *
 * @throws ConfigError for syntax errors; everything else is reported by `resolveConfig`
 */
export function parseConfigText(
  text: string,
  options: { readonly format?: ConfigFormat; readonly fileName?: string } = {},
): ConfigSource {
  const { format = "yaml", fileName } = options;
  const { tree, problems } = parseTree(text.replace(/^\uFEFF/, ""), { format, fileName });
  const source = readTree(tree, { fileName });
  return new ConfigSource(source.entries, [...problems, ...source.problems], source.warnings, fileName);
}
