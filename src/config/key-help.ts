// What the schema says of a key or a section, as text for a terminal: the same words as docs/configuration.md, messages
// and the JSON Schema.

import { ConfigError } from "../util/errors.js";
import { type AnyField, type FieldInfo, fieldInfo } from "./field.js";
import { sections } from "./sections/index.js";
import { nearest } from "./suggest.js";

export interface KeyHelp {
  readonly path: string;
  readonly expected: string;
  readonly default: unknown;
  readonly description: string;
}

function helpOf(path: string, schema: AnyField): KeyHelp {
  const { description, expected } = fieldInfo.get(schema) as FieldInfo;
  return { path, expected, default: schema.parse(undefined), description };
}

/** Every key, by its path. */
export function allKeys(): KeyHelp[] {
  return sections.flatMap(({ name, shape }) =>
    Object.entries(shape as Readonly<Record<string, AnyField>>).map(([key, schema]) =>
      helpOf(name === "" ? key : `${name}.${key}`, schema),
    ),
  );
}

/** One sentence on a key, for options that set it. */
export function describeKey(path: string): string {
  return requireKeys(path)[0]!.description;
}

/**
 * The key that `path` names, or all of a section.
 * @throws ConfigError when there is neither
 */
export function requireKeys(path: string): KeyHelp[] {
  const keys = allKeys();
  const found = keys.filter((key) => key.path === path || key.path.startsWith(`${path}.`));
  if (found.length > 0) return found;
  const names = [
    ...sections.map(({ name }) => name).filter((name) => name !== ""),
    ...keys.map((k) => k.path),
  ];
  const near = nearest(path, names) ?? keys.find((key) => key.path.endsWith(`.${path}`))?.path;
  throw new ConfigError(
    `there is no key or section "${path}"${near === undefined ? "" : `; did you mean ${near}?`}`,
    { code: "config.unknown_key", details: { path } },
  );
}

export function formatKeys(keys: readonly KeyHelp[]): string {
  return keys
    .map(
      ({ path, expected, default: fallback, description }) =>
        `${path}\n  ${description}\n  ${expected}; default ${JSON.stringify(fallback)}\n`,
    )
    .join("\n");
}
