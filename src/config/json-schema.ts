// The schema as JSON Schema, for editors: completion, descriptions and a first check while a file is written. It allows
// every spelling that reading allows; rules between keys are for `speedtronic validate`.

import * as z from "zod";
import { ROOT_ALIASES, SECTION_ALIASES, WORD_SECTIONS } from "./aliases.js";
import { compatPresets } from "./compat-table.js";
import { type AnyField, type FieldInfo, fieldInfo } from "./field.js";
import { sections } from "./sections/index.js";
import { ROOT_FLAGS } from "./sections/root.js";

export interface JsonSchema {
  readonly [key: string]: unknown;
}

const shapes: ReadonlyMap<string, Readonly<Record<string, AnyField>>> = new Map(
  sections.map(({ name, shape }) => [name, shape]),
);

/** Draft 7, which editors know best. */
export function configJsonSchema(): JsonSchema {
  const named = sections.filter(({ name }) => name !== "");
  const properties: Record<string, JsonSchema> = {};
  for (const { name, summary, shape } of named) {
    const forms = sectionForms(name, shape);
    properties[name] = { description: summary, anyOf: [...forms, { type: "null" }] };
  }
  for (const [key, schema] of Object.entries(shapes.get("") ?? {}))
    properties[key] = ROOT_FLAGS.has(key) ? flagForms(schema) : fieldSchema(schema);
  for (const [alias, target] of Object.entries(ROOT_ALIASES)) {
    const [section, key] = target.split(".") as [string, string];
    const schema = fieldSchema(shapes.get(section)![key]!);
    properties[alias] = { ...schema, description: `Short for ${target}. ${schema.description}` };
  }
  for (const alias of SECTION_ALIASES)
    properties[alias] = {
      ...properties.distributed,
      description: "Another name of the section distributed.",
    };
  return {
    $schema: "http://json-schema.org/draft-07/schema#",
    title: "Speedtronic configuration",
    type: ["object", "null"],
    properties,
    additionalProperties: false,
  };
}

function sectionForms(name: string, shape: Readonly<Record<string, AnyField>>): JsonSchema[] {
  const properties = Object.fromEntries(
    Object.entries(shape).map(([key, schema]) => [key, fieldSchema(schema)]),
  );
  const mapping = { type: "object", properties, additionalProperties: false };
  if (name === "compat") return [mapping, ...choiceForms(Object.keys(compatPresets))];
  const word = WORD_SECTIONS.get(name);
  return word === undefined ? [mapping] : [mapping, bare(fieldSchema(shape[word]!))];
}

function flagForms(schema: AnyField): JsonSchema {
  const { description, default: fallback, ...value } = fieldSchema(schema);
  const mapping = {
    type: "object",
    properties: { enabled: { ...value, default: fallback } },
    additionalProperties: false,
  };
  return { description, default: fallback, anyOf: [value, mapping] };
}

/** One key: its values, its default and what it does. */
function fieldSchema(schema: AnyField): JsonSchema {
  const info = fieldInfo.get(schema) as FieldInfo;
  const forms = valueForms(schema, info).map(simplified);
  const [only, ...others] = forms;
  return {
    ...(others.length === 0 ? only : { anyOf: forms }),
    description: `${info.description}\nExpected: ${info.expected}.`,
    default: schema.safeParse(undefined).data ?? null,
  };
}

function valueForms(schema: AnyField, info: FieldInfo): JsonSchema[] {
  const { $schema: _, default: __, ...plain } = z.toJSONSchema(schema, jsonOptions) as JsonSchema;
  const isNullable = info.nullMeansDefault === true || schema.safeParse(null).success;
  const nullForm = isNullable ? [{ type: "null" }] : [];
  if (info.secret) return [{ type: ["string", "null"] }];
  // A free mapping: what may stand in it is described by a recursion that has no place here.
  if ("definitions" in plain) return [{ type: "object" }];
  const forms = flatten(plain).filter(({ type }) => type !== "null");
  const words =
    info.choices === undefined ? [] : choiceForms([...info.choices, ...wordsOf(info)], info.choices);
  const others = words.length === 0 ? forms : forms.filter((form) => !("enum" in form));
  return [...words, ...others, ...pluginForms(info), ...spellingsOf(info), ...nullForm];
}

function flatten(schema: JsonSchema): JsonSchema[] {
  if (Array.isArray(schema.anyOf)) return (schema.anyOf as JsonSchema[]).flatMap(flatten);
  return Array.isArray(schema.type) ? schema.type.map((type: unknown) => ({ ...schema, type })) : [schema];
}

const jsonOptions = { io: "input", target: "draft-7", unrepresentable: "any" } as const;

function wordsOf(info: FieldInfo): string[] {
  return Object.keys(info.synonyms ?? {});
}

/** `shown` are offered by editors; all are allowed in any case, with blanks around them. */
function choiceForms(words: readonly string[], shown: readonly string[] = words): JsonSchema[] {
  const pattern = words.map((word) => [...word].map(eitherCase).join("")).join("|");
  return [{ enum: shown }, { type: "string", pattern: `^\\s*(?:${pattern})\\s*$` }];
}

function eitherCase(letter: string): string {
  const [lower, upper] = [letter.toLowerCase(), letter.toUpperCase()];
  return lower === upper ? letter.replace(/[^\w-]/, "\\$&") : `[${lower}${upper}]`;
}

/** Names that a plugin may bring: an editor cannot know them, and takes those that look like nothing built in. */
function pluginForms({ registered }: FieldInfo): JsonSchema[] {
  return registered === undefined ? [] : [{ type: "string", pattern: "^[a-z][a-z0-9]*[_-][a-z0-9_-]*$" }];
}

/** Editors read YAML 1.2, in which these are texts. */
function spellingsOf({ expected }: FieldInfo): JsonSchema[] {
  if (expected.startsWith("true or false"))
    return [{ enum: ["yes", "no", "on", "off", "Yes", "No", "On", "Off", "YES", "NO", "ON", "OFF"] }];
  if (/^a (?:whole )?number/.test(expected))
    return [{ type: "string", pattern: "^[-+]?[0-9]+(?:_[0-9]+)+(?:\\.[0-9]*)?(?:[eE][-+]?[0-9]+)?$" }];
  return [];
}

function bare({ description: _, default: __, ...schema }: JsonSchema): JsonSchema {
  return schema;
}

/** The safe integers are no bound that anybody set. */
function simplified(schema: JsonSchema): JsonSchema {
  const limit = Number.MAX_SAFE_INTEGER;
  return Object.fromEntries(
    Object.entries(schema)
      .filter(
        ([key, value]) => !(key === "maximum" && value === limit) && !(key === "minimum" && value === -limit),
      )
      .map(([key, value]) => [
        key,
        Array.isArray(value) ? value.map((v) => (isSchema(v) ? simplified(v) : v)) : value,
      ]),
  );
}

function isSchema(value: unknown): value is JsonSchema {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
