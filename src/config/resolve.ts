// From what was set to a complete configuration: check each value, fill in defaults and derived values, check the
// rules between keys, and report everything that is wrong at once.

import { crossChecks } from "./cross-checks.js";
import { deriveValues } from "./derived.js";
import { type AnyField, type FieldInfo, fieldInfo } from "./field.js";
import { type ConfigProblem, configError, describeValue } from "./problem.js";
import { hintForNumber } from "./scalars.js";
import type { ConfigInput, SpeedtronicConfig } from "./schema.js";
import { sections } from "./sections/index.js";
import { ConfigSource, type Entry, readTree } from "./source.js";
import { nearest } from "./suggest.js";
import { treeFromValue } from "./tree.js";

export interface ResolveOptions {
  /** Called for what is accepted though it is probably a mistake. */
  readonly onWarning?: (warning: ConfigProblem) => void;
  /** Whether what `plugins` names is loaded: a name that only plugins can bring must then be there. Default false. */
  readonly pluginsLoaded?: boolean;
}

function hintFor(info: FieldInfo, value: unknown): string | undefined {
  const { expected } = info;
  if (typeof value === "string" && /number/.test(expected)) {
    const hint = hintForNumber(value);
    if (hint !== undefined) return hint;
  }
  if (typeof value === "string" && expected.startsWith("true or false")) {
    const word = value.trim().toLowerCase();
    if (word === "true" || word === "false") return `write ${word} without quotes`;
    return undefined;
  }
  if (expected.startsWith("text") && (typeof value === "number" || typeof value === "boolean")) {
    return typeof value === "boolean"
      ? "put it in quotes if you mean the word (yes, no, on and off are booleans)"
      : "put it in quotes";
  }
  if (value === null) return "leave the key out for its default";
  return undefined;
}

function explain(info: FieldInfo, value: unknown): { message: string; suggestion?: string } {
  const base = `expected ${info.expected}, got ${info.secret ? `a ${typeof value}` : describeValue(value)}`;
  if (info.choices !== undefined && typeof value === "string") {
    const suggestion = nearest(value, [...info.choices, ...(info.registered?.() ?? [])]);
    if (suggestion !== undefined) return { message: `${base}; did you mean "${suggestion}"?`, suggestion };
  }
  const hint = info.secret ? undefined : hintFor(info, value);
  return { message: hint === undefined ? base : `${base}; ${hint}` };
}

/** Spelling of choices does not depend on case, and an explicit null can stand for a default. */
function normalise(info: FieldInfo, value: unknown): unknown {
  if (value === null && info.nullMeansDefault) return undefined;
  if (info.choices === undefined || typeof value !== "string") return value;
  const word = value.trim().toLowerCase();
  if (info.synonyms !== undefined && Object.hasOwn(info.synonyms, word)) return info.synonyms[word];
  return info.choices.find((option) => option.toLowerCase() === word) ?? value;
}

/**
 * Checks and completes a configuration.
 *
 * @param input a parsed source, or a mapping as written in code (aliases and shorthands included)
 * @throws ConfigError listing every problem; `details.problems` holds them as {@link ConfigProblem}s
 */
export function resolveConfig(
  input: ConfigSource | ConfigInput | null,
  options: ResolveOptions = {},
): SpeedtronicConfig {
  const source = input instanceof ConfigSource ? input : readTree(treeFromValue(input));
  const problems = [...source.problems];
  const warnings = [...source.warnings];
  const invalid = new Set<string>();
  const result: Record<string, unknown> = {};

  // A rule between keys is often broken by a key other than the one it is reported at: the place is where the
  // first of them was written.
  const report = (
    list: ConfigProblem[],
    code: string,
    path: string,
    problem: { message: string; suggestion?: string },
    related: readonly string[] = [],
  ): void => {
    const own = source.entries.get(path);
    const entry = [path, ...related]
      .map((key) => source.entries.get(key))
      .find((found) => found !== undefined);
    const inFile = source.fileName !== undefined && entry?.location?.kind !== "option";
    list.push({
      code,
      path: own?.writtenAs ?? path,
      ...problem,
      ...(entry?.location === undefined ? {} : { location: entry.location }),
      ...(inFile ? { file: source.fileName as string } : {}),
    });
  };

  const named = source.entries.get("plugins")?.value;
  const isOpen = options.pluginsLoaded !== true && Array.isArray(named) && named.length > 0;
  /** A choice that comes with a plugin; before plugins are loaded every name may. */
  const isFromPlugin = ({ registered }: FieldInfo, value: unknown): boolean =>
    registered !== undefined &&
    typeof value === "string" &&
    (registered().includes(value.trim()) || (isOpen && value.trim() !== ""));

  const readField = (path: string, schema: AnyField, entry: Entry | undefined): unknown => {
    const info = fieldInfo.get(schema) as FieldInfo;
    const parsed = schema.safeParse(entry === undefined ? undefined : normalise(info, entry.value));
    if (parsed.success) return parsed.data;
    if (isFromPlugin(info, entry?.value)) return (entry!.value as string).trim();
    report(problems, "config.value", path, explain(info, (entry as Entry).value));
    invalid.add(path);
    return undefined;
  };

  for (const section of sections) {
    const prefix = section.name === "" ? "" : `${section.name}.`;
    const values: Record<string, unknown> = {};
    for (const [key, schema] of Object.entries(section.shape) as [string, AnyField][]) {
      values[key] = readField(prefix + key, schema, source.entries.get(prefix + key));
    }
    if (section.name === "") Object.assign(result, values);
    else result[section.name] = values;
  }

  const config = result as unknown as SpeedtronicConfig;
  const isSet = (path: string): boolean => {
    const value = source.entries.get(path)?.value;
    return value !== undefined && value !== null;
  };
  deriveValues(config, isSet);

  for (const section of sections) {
    const prefix = section.name === "" ? "" : `${section.name}.`;
    const values = (section.name === "" ? result : result[section.name]) as Record<string, unknown>;
    for (const check of section.checks) {
      const needs = check.needs.map((key) => prefix + key);
      if (needs.some((path) => invalid.has(path))) continue;
      const message = check.test(values);
      if (message !== undefined) report(problems, "config.conflict", prefix + check.at, { message }, needs);
    }
  }
  for (const check of crossChecks) {
    if (check.needs.some((path) => invalid.has(path))) continue;
    const message = check.test(config, isSet);
    if (message === undefined) continue;
    if (check.severity === "warning")
      report(warnings, "config.suspicious", check.at, { message }, check.needs);
    else report(problems, "config.conflict", check.at, { message }, check.needs);
  }

  if (problems.length > 0) throw configError(problems);
  for (const warning of warnings) options.onWarning?.(warning);
  return config;
}
