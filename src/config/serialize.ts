// Configuration to plain data and text. Secrets never get through, so the result may be stored and shown; what is
// written here loads again to the same configuration, without its secrets.

import { Document, type ScalarTag, visit } from "yaml";
import { resolvePlainScalar } from "./scalars.js";
import type { SpeedtronicConfig } from "./schema.js";
import { Secret } from "./secret.js";
import { sections } from "./sections/index.js";

export type PlainValue =
  | null
  | boolean
  | number
  | string
  | readonly PlainValue[]
  | { [key: string]: PlainValue };

function plainValue(value: unknown): PlainValue {
  if (value instanceof Secret) return value.toString();
  if (Array.isArray(value)) return value.map(plainValue);
  return value as PlainValue;
}

/** Plain data in the order of the schema, every key present, secrets redacted. */
export function toPlainConfig(config: SpeedtronicConfig): Record<string, PlainValue> {
  const values = config as unknown as Record<string, unknown>;
  const pick = (from: Record<string, unknown>, keys: readonly string[]): Record<string, PlainValue> =>
    Object.fromEntries(keys.map((key) => [key, plainValue(from[key])]));
  return Object.fromEntries(
    sections.flatMap((section): [string, PlainValue][] => {
      const keys = Object.keys(section.shape);
      if (section.name === "") return Object.entries(pick(values, keys));
      return [[section.name, pick(values[section.name] as Record<string, unknown>, keys)]];
    }),
  );
}

// Readers of YAML 1.1 take 1e-8 for text and 1.0e-8 for a number; all others take both for a number.
const exponentNumber: ScalarTag = {
  tag: "tag:yaml.org,2002:float",
  default: true,
  // The library prefers tags that have a test when it writes; nothing is read with this one.
  test: /^(?!)/,
  identify: (value) => typeof value === "number" && /e/.test(String(value)),
  resolve: (text) => Number(text),
  stringify: ({ value }) => String(value).replace(/^(-?[0-9]+)e/, "$1.0e"),
};

/** Text that ends with one line break. YAML can be read by YAML 1.1 and 1.2 readers alike. */
export function formatConfig(config: SpeedtronicConfig, format: "yaml" | "json"): string {
  return formatPlainConfig(toPlainConfig(config), format);
}

/** The same for a configuration of which some keys are left out. */
export function formatPlainConfig(
  plain: Readonly<Record<string, PlainValue>>,
  format: "yaml" | "json",
): string {
  if (format === "json") return `${JSON.stringify(plain, null, 2)}\n`;
  const document = new Document(plain, {
    version: "1.1",
    schema: "yaml-1.1",
    customTags: (tags) => [exponentNumber, ...tags],
    aliasDuplicateObjects: false,
  });
  // The library quotes what YAML 1.1 would misread; this adds what only our own reader would.
  visit(document, {
    Scalar: (_, node) => {
      if (typeof node.value === "string" && resolvePlainScalar(node.value) !== node.value) {
        node.type = "QUOTE_DOUBLE";
      }
    },
  });
  return document.toString({ lineWidth: 0, blockQuote: false });
}
