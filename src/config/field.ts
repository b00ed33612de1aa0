// Building blocks of the schema. A kind is a zod type plus the words that describe it; a field is a kind with a
// default and a description. The words are registered beside the zod type, so that messages, documentation and
// `--help` all come from the one place that also validates.

import * as z from "zod";

/** What people need to know of one key; `expected` completes the sentence "expected …". */
export interface FieldInfo {
  readonly description: string;
  readonly expected: string;
  /** The texts that are allowed; matched without regard to case and surrounding blanks. */
  readonly choices?: readonly string[];
  /** Its value appears in no message and no output. */
  readonly secret?: boolean;
  /** Other spellings in lower case, and the choice each stands for. */
  readonly synonyms?: Readonly<Record<string, string>>;
  /** An explicit null stands for the default, as the Python files use it. */
  readonly nullMeansDefault?: boolean;
  /** Further choices, which plugins bring along. */
  readonly registered?: () => readonly string[];
}

export const fieldInfo: z.core.$ZodRegistry<FieldInfo> = z.registry<FieldInfo>();

export interface Kind<T extends z.ZodType> {
  readonly schema: T;
  readonly expected: string;
  readonly choices?: readonly string[];
}

export type AnyField = z.ZodType;
export type Shape = Readonly<Record<string, AnyField>>;

interface Bounds {
  readonly min?: number;
  readonly max?: number;
  readonly above?: number;
  readonly below?: number;
}

function describeBounds(noun: string, { min, max, above, below }: Bounds): string {
  if (min !== undefined && max !== undefined) return `${noun} from ${min} to ${max}`;
  if (min !== undefined && below !== undefined) return `${noun} from ${min} up to but not including ${below}`;
  if (above !== undefined && max !== undefined) return `${noun} greater than ${above}, at most ${max}`;
  if (above !== undefined) return `${noun} greater than ${above}`;
  if (min !== undefined) return `${noun} of at least ${min}`;
  return noun;
}

function bound<T extends z.ZodNumber>(schema: T, { min, max, above, below }: Bounds): T {
  let bounded: T = schema;
  if (min !== undefined) bounded = bounded.gte(min);
  if (max !== undefined) bounded = bounded.lte(max);
  if (above !== undefined) bounded = bounded.gt(above);
  if (below !== undefined) bounded = bounded.lt(below);
  return bounded;
}

export function text(): Kind<z.ZodString> {
  return { schema: z.string(), expected: "text" };
}

export function flag(): Kind<z.ZodBoolean> {
  return { schema: z.boolean(), expected: "true or false" };
}

export function whole(bounds: Bounds = {}): Kind<z.ZodInt> {
  return { schema: bound(z.int(), bounds), expected: describeBounds("a whole number", bounds) };
}

export function real(bounds: Bounds = {}): Kind<z.ZodNumber> {
  return { schema: bound(z.number(), bounds), expected: describeBounds("a number", bounds) };
}

export function choice<const C extends readonly [string, ...string[]]>(
  choices: C,
): Kind<z.ZodEnum<{ [K in C[number]]: K }>> {
  const quoted = choices.map((option) => JSON.stringify(option));
  const expected = quoted.length === 1 ? `${quoted[0]} (the only choice)` : joinWords(quoted, "or");
  return { schema: z.enum(choices) as unknown as z.ZodEnum<{ [K in C[number]]: K }>, expected, choices };
}

export function orNull<T extends z.ZodType>(kind: Kind<T>): Kind<z.ZodNullable<T>> {
  return { ...kind, schema: z.nullable(kind.schema), expected: `${kind.expected}, or null` };
}

/** A free mapping, for values that somebody else checks. */
export function mapping(): Kind<z.ZodRecord<z.ZodString, z.ZodJSONSchema>> {
  return { schema: z.record(z.string(), z.json()), expected: "a mapping of names to values" };
}

/** A kind that the builders above cannot say. */
export function custom<T extends z.ZodType>(
  schema: T,
  expected: string,
  choices?: readonly string[],
): Kind<T> {
  return choices === undefined ? { schema, expected } : { schema, expected, choices };
}

/** One key: its kind, its default, and one sentence on what it does. */
export function field<T extends z.ZodType>(
  kind: Kind<T>,
  fallback: z.output<T>,
  description: string,
  extra: Pick<FieldInfo, "secret" | "nullMeansDefault" | "synonyms" | "registered"> = {},
): z.ZodDefault<T> {
  const schema = kind.schema.default(fallback as never) as unknown as z.ZodDefault<T>;
  const choices = kind.choices === undefined ? {} : { choices: kind.choices };
  fieldInfo.add(schema, { description, expected: kind.expected, ...choices, ...extra });
  return schema;
}

/** A rule over several keys of one section. It runs only when every key it names has a valid value. */
export interface SectionCheck<V> {
  /** The key that the problem is reported at. */
  readonly at: keyof V & string;
  readonly needs: readonly (keyof V & string)[];
  /** What is wrong, or undefined. */
  test(values: V): string | undefined;
}

export interface SectionSpec<N extends string = string, S extends Shape = Shape> {
  readonly name: N;
  readonly summary: string;
  readonly shape: S;
  readonly schema: z.ZodObject<S, z.core.$strict>;
  readonly checks: readonly SectionCheck<Record<string, unknown>>[];
}

export function defineSection<const N extends string, S extends Shape>(spec: {
  name: N;
  summary: string;
  shape: S;
  checks?: readonly SectionCheck<z.output<z.ZodObject<S>>>[];
}): SectionSpec<N, S> {
  return {
    name: spec.name,
    summary: spec.summary,
    shape: spec.shape,
    schema: z.strictObject(spec.shape) as unknown as z.ZodObject<S, z.core.$strict>,
    checks: (spec.checks ?? []) as unknown as readonly SectionCheck<Record<string, unknown>>[],
  };
}

function joinWords(words: readonly string[], conjunction: "and" | "or"): string {
  if (words.length <= 1) return words[0] ?? "";
  return `${words.slice(0, -1).join(", ")} ${conjunction} ${words.at(-1)}`;
}
