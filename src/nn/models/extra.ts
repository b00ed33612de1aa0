// `model.extra`: settings that one model has and others do not, under snake_case names as in a config file. Each
// model states its own as rules; reading them refuses whatever no rule knows.

import { ModelError } from "../../util/errors.js";
import { suggestion } from "../near-miss.js";

export interface ExtraRule<V> {
  readonly fallback: V;
  /** Completes the sentence "must be …". */
  readonly expected: string;
  accepts(value: unknown): boolean;
}

export const flagRule = (fallback: boolean): ExtraRule<boolean> => ({
  fallback,
  expected: "true or false",
  accepts: (value) => typeof value === "boolean",
});

export const positiveRule = (fallback: number): ExtraRule<number> => ({
  fallback,
  expected: "a number greater than 0",
  accepts: isPositive,
});

export const sizeOrNullRule = (): ExtraRule<number | null> => ({
  fallback: null,
  expected: "a positive integer, or null",
  accepts: (value) => value === null || (Number.isSafeInteger(value) && isPositive(value)),
});

export function choiceRule<const C extends string>(choices: readonly C[], fallback: C): ExtraRule<C> {
  return {
    fallback,
    expected: choices.map((choice) => JSON.stringify(choice)).join(" or "),
    accepts: (value) => (choices as readonly unknown[]).includes(value),
  };
}

export type ExtraRules = Readonly<Record<string, ExtraRule<unknown>>>;

/** Rules by key, or a parser of the whole, such as a zod schema. */
export type ExtraSchema = ExtraRules | { parse(extra: Readonly<Record<string, unknown>>): unknown };

/**
 * `extra` as `schema` has it.
 * @throws ModelError `model.unknown_extra` or `model.extra`; whatever else a parser throws becomes the latter.
 */
export function parseExtra(
  model: string,
  extra: Readonly<Record<string, unknown>>,
  schema: ExtraSchema,
): Readonly<Record<string, unknown>> {
  const { parse } = schema;
  if (typeof parse !== "function") return readExtra(model, extra, schema as ExtraRules);
  let parsed: unknown;
  try {
    parsed = parse.call(schema, extra);
  } catch (error) {
    if (error instanceof ModelError) throw error;
    throw new ModelError(`model.extra does not fit the model "${model}": ${problemsOf(error)}`, {
      code: "model.extra",
      details: { model, extra },
      cause: error,
    });
  }
  if (typeof parsed === "object" && parsed !== null && !(parsed instanceof Promise))
    return parsed as Readonly<Record<string, unknown>>;
  throw new ModelError(
    `the schema of model "${model}" must return the settings as a record, got ${parsed instanceof Promise ? "a Promise" : String(parsed)}`,
    { code: "model.extra_schema", details: { model } },
  );
}

/** One line for all; schema libraries list their problems as `issues` with a path and a message. */
function problemsOf(error: unknown): string {
  const { issues, message } = (error ?? {}) as {
    issues?: readonly { path?: readonly PropertyKey[]; message?: string }[];
    message?: string;
  };
  if (!Array.isArray(issues) || issues.length === 0) return message ?? String(error);
  return issues
    .map((issue: { path?: readonly PropertyKey[]; message?: string }) => {
      const path = ["extra", ...(issue.path ?? []).map(String)].join(".");
      return `${path}: ${issue.message ?? "does not fit"}`;
    })
    .join("; ");
}

/**
 * The value of each rule's key, or its fallback.
 * @throws ModelError `model.unknown_extra` for a key without a rule, `model.extra` for a value that does not fit
 */
export function readExtra<T extends object>(
  model: string,
  extra: Readonly<Record<string, unknown>>,
  rules: { readonly [K in keyof T]: ExtraRule<T[K]> },
): T {
  const known = Object.keys(rules);
  for (const key of Object.keys(extra))
    if (!known.includes(key))
      throw new ModelError(
        `the model "${model}" has no setting extra.${key}${suggestion(key, known)}; ` +
          (known.length > 0 ? `it has ${known.join(", ")}` : "it has none of its own"),
        { code: "model.unknown_extra", details: { model, key, known } },
      );
  const entries = Object.entries<ExtraRule<unknown>>(rules).map(([key, rule]) => {
    const value = extra[key];
    if (value === undefined) return [key, rule.fallback];
    if (rule.accepts(value)) return [key, value];
    throw new ModelError(
      `extra.${key} of the model "${model}" must be ${rule.expected}, got ${JSON.stringify(value)}`,
      { code: "model.extra", details: { model, key, value } },
    );
  });
  return Object.fromEntries(entries) as T;
}

export function isPositive(value: unknown): boolean {
  return typeof value === "number" && Number.isFinite(value) && value > 0;
}
