// Renaming by rules of the user: ordered, each applied to what the ones before have made of a name, as in a stream
// editor. A plan can be looked at before anything is done; rules that do nothing and names that meet are errors. Pure.

import { listed, nameError } from "./errors.js";
import { collisionsOf, type NameMapping } from "./wrappers.js";

export type RenameRule =
  /** This one name. */
  | { readonly exact: string; readonly to: string }
  /** The start of a name. */
  | { readonly prefix: string; readonly to: string }
  /** A regular expression that must match the whole name; `to` takes captures as `$1` or `$<name>`. */
  | { readonly pattern: string; readonly to: string };

export interface RenamePlan {
  /** Old → new for every name, in the given order. */
  readonly mapping: NameMapping;
  /** Those that change. */
  readonly renames: readonly { readonly from: string; readonly to: string }[];
  /** How many names each rule has changed, in the order of the rules. */
  readonly matches: readonly { readonly rule: string; readonly count: number }[];
  readonly collisions: readonly string[];
  readonly unusedRules: readonly string[];
}

const kinds = ["exact", "prefix", "pattern"] as const;

/** What the rules would do. Never throws for what they do; see {@link requireCleanPlan}. */
export function planRenames(names: Iterable<string>, rules: readonly RenameRule[]): RenamePlan {
  const appliers = rules.map(compile);
  const counts = rules.map(() => 0);
  const mapping = new Map<string, string>();
  for (const name of names) {
    let current = name;
    for (const [index, apply] of appliers.entries()) {
      const next = apply(current);
      if (next === undefined) continue;
      counts[index]! += 1;
      current = next;
    }
    mapping.set(name, current);
  }
  const matches = rules.map((rule, index) => ({ rule: describeRule(rule), count: counts[index]! }));
  return {
    mapping,
    renames: [...mapping].filter(([from, to]) => from !== to).map(([from, to]) => ({ from, to })),
    matches,
    collisions: collisionsOf(mapping),
    unusedRules: matches.filter(({ count }) => count === 0).map(({ rule }) => rule),
  };
}

/** @throws CheckpointError `checkpoint.collision` or `checkpoint.unused_rule`. */
export function requireCleanPlan({ mapping, collisions, unusedRules }: RenamePlan): NameMapping {
  const lines = [...listed("collisions", collisions), ...listed("rules that rename nothing", unusedRules)];
  if (lines.length === 0) return mapping;
  throw nameError(
    collisions.length > 0 ? "collision" : "unused_rule",
    ["the renaming rules were not applied: correct them or leave them out", ...lines].join("\n"),
    { collisions, unusedRules },
  );
}

/** Old → new, one line each, for a dry run; also what would go wrong. */
export function formatPlan(plan: RenamePlan): string {
  const { renames, collisions, unusedRules, mapping } = plan;
  const width = Math.max(0, ...renames.map(({ from }) => from.length));
  const lines = renames.map(({ from, to }) => `${from.padEnd(width)} → ${to}`);
  lines.push(`${renames.length} of ${mapping.size} names change`);
  lines.push(...listed("collisions", collisions), ...listed("rules that rename nothing", unusedRules));
  return `${lines.join("\n")}\n`;
}

/**
 * One rule as text: `old=>new`, `exact:old=>new`, `prefix:old.=>new.` or `pattern:(.*)\.gamma=>$1.weight`.
 *
 * @throws ConfigError `checkpoint.invalid_rule`
 */
export function parseRenameRule(text: string): RenameRule {
  const arrow = text.indexOf("=>");
  if (arrow < 0) throw invalid(text, 'it has no "=>" between the old and the new name');
  const [left, to] = [text.slice(0, arrow).trim(), text.slice(arrow + 2).trim()];
  const kind = kinds.find((candidate) => left.startsWith(`${candidate}:`)) ?? "exact";
  const from = left.startsWith(`${kind}:`) ? left.slice(kind.length + 1) : left;
  return checked(kind, from, to, text);
}

/**
 * Rules from JSON: `[{"exact": "a", "to": "b"}, {"prefix": "model.", "to": ""}, {"pattern": "(.*)\\.gamma", "to":
 * "$1.weight"}]`; texts as for {@link parseRenameRule} are taken too.
 *
 * @throws ConfigError `checkpoint.invalid_rule`
 */
export function parseRenameRules(value: unknown): RenameRule[] {
  if (!Array.isArray(value)) throw invalid(JSON.stringify(value) ?? "undefined", "the rules must be a list");
  return value.map((item: unknown) => {
    if (typeof item === "string") return parseRenameRule(item);
    const text = JSON.stringify(item);
    const entries = Object.entries((item ?? {}) as Record<string, unknown>);
    const kind = kinds.find((candidate) => entries.some(([key]) => key === candidate));
    const { to, ...rest } = Object.fromEntries(entries);
    if (kind === undefined || Object.keys(rest).length !== 1)
      throw invalid(text, `it must have "to" and one of ${kinds.join(", ")}, and nothing else`);
    const from = rest[kind];
    if (typeof from !== "string" || typeof to !== "string") throw invalid(text, "both sides must be texts");
    return checked(kind, from, to, text);
  });
}

export function describeRule(rule: RenameRule): string {
  if ("exact" in rule) return `exact:${rule.exact}=>${rule.to}`;
  return "prefix" in rule ? `prefix:${rule.prefix}=>${rule.to}` : `pattern:${rule.pattern}=>${rule.to}`;
}

/** The new name, or undefined where the rule does not apply. */
function compile(rule: RenameRule): (name: string) => string | undefined {
  if ("exact" in rule) return (name) => (name === rule.exact ? rule.to : undefined);
  if ("prefix" in rule)
    return (name) => (name.startsWith(rule.prefix) ? rule.to + name.slice(rule.prefix.length) : undefined);
  const expression = expressionOf(rule.pattern, describeRule(rule));
  return (name) => (expression.test(name) ? name.replace(expression, rule.to) : undefined);
}

function checked(kind: (typeof kinds)[number], from: string, to: string, text: string): RenameRule {
  if (from === "" && kind !== "prefix") throw invalid(text, "its left side is empty");
  if (to === "" && kind !== "prefix") throw invalid(text, "its right side is empty: a tensor needs a name");
  if (kind === "exact") return { exact: from, to };
  if (kind === "prefix") return { prefix: from, to };
  expressionOf(from, text);
  return { pattern: from, to };
}

function expressionOf(pattern: string, text: string): RegExp {
  try {
    return new RegExp(`^(?:${pattern})$`, "u");
  } catch (error) {
    throw invalid(text, error instanceof Error ? error.message : String(error));
  }
}

function invalid(text: string, reason: string) {
  return nameError("invalid_rule", `the renaming rule ${text} cannot be used: ${reason}`, { rule: text });
}
