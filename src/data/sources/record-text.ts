// Makes the text of a document from the fields of a record: one field, or a template with several.

import { ConfigError } from "../../util/errors.js";

/** How the text is chosen; without a template it is the field. */
export interface TextChoice {
  /** A dot leads into an object: `messages.prompt`. A field that itself has the whole name comes first. */
  readonly field: string;
  /** `{question}\n{answer}`; `{{` and `}}` stand for braces. */
  readonly template: string | null;
}

export interface RecordText {
  readonly fields: readonly string[];
  /** The text, or why there is none. */
  textOf(record: Record<string, unknown>): { readonly text: string } | { readonly reason: string };
}

/** Throws ConfigError for a template that is none. */
export function recordText({ field, template }: TextChoice): RecordText {
  if (template === null) {
    return {
      fields: [field],
      textOf: (record) => {
        const value = valueAt(record, field);
        return typeof value === "string" ? { text: value } : { reason: missing(field, value, "a text") };
      },
    };
  }
  const parts = parseTemplate(template);
  return {
    fields: parts.flatMap((part) => (typeof part === "string" ? [] : [part.field])),
    textOf: (record) => {
      let text = "";
      for (const part of parts) {
        if (typeof part === "string") {
          text += part;
          continue;
        }
        const value = valueAt(record, part.field);
        if (!isPlain(value)) return { reason: missing(part.field, value, "a text or a number") };
        text += String(value);
      }
      return { text };
    },
  };
}

type Part = string | { readonly field: string };

function parseTemplate(template: string): Part[] {
  const parts: Part[] = [];
  for (const [whole, field] of template.matchAll(/\{\{|\}\}|\{([^{}]+)\}|[{}]|[^{}]+/g)) {
    if (field !== undefined) parts.push({ field: field.trim() });
    else if (whole === "{" || whole === "}") throw badTemplate(template, `a "${whole}" stands alone`);
    else parts.push(whole === "{{" ? "{" : whole === "}}" ? "}" : whole);
  }
  if (parts.every((part) => typeof part === "string")) throw badTemplate(template, "it names no field");
  return parts;
}

function badTemplate(template: string, what: string): ConfigError {
  return new ConfigError(
    `data.template ${JSON.stringify(template)} cannot be used: ${what}. Write fields as {name}, and {{ or }} for a brace.`,
    { code: "config.template", details: { template } },
  );
}

function valueAt(record: Record<string, unknown>, field: string): unknown {
  if (Object.hasOwn(record, field)) return record[field];
  return field.split(".").reduce<unknown>((value, key) => {
    const isObject = typeof value === "object" && value !== null && Object.hasOwn(value, key);
    return isObject ? (value as Record<string, unknown>)[key] : undefined;
  }, record);
}

function isPlain(value: unknown): value is string | number | bigint | boolean {
  return ["string", "number", "bigint", "boolean"].includes(typeof value);
}

function missing(field: string, value: unknown, wanted: string): string {
  if (value === undefined) return `it has no field "${field}"`;
  const kind = value === null ? "null" : Array.isArray(value) ? "a list" : typeof value;
  return `its field "${field}" is ${kind}, not ${wanted}`;
}
