// Which parameter the hybrid optimiser gives to Muon and which to AdamW, with the reason: a table to look at. Muon
// is for hidden matrices; embeddings, heads, norms and biases are AdamW's.

import { ConfigError } from "../util/errors.js";

export type RuleName = "muon" | "adamw";

export interface RoutedParameter {
  readonly name: string;
  readonly shape: readonly number[];
  readonly trainable: boolean;
  /** Class of the first module that holds it. */
  readonly owner: string;
  /** Whether that module is a linear layer. */
  readonly isLinear: boolean;
}

export interface Route {
  readonly name: string;
  readonly rule: RuleName | "frozen";
  readonly reason: string;
}

/** Parts of a name that keep a matrix away from Muon. */
const notHidden = new Set(
  "embed embedding wte wpe lm_head classifier output output_proj score score_proj head".split(" "),
);

/**
 * @param overrides rule by pattern: a name, a subtree (`transformer.h.0`), or either with `*` for any text; the last
 *   one that fits counts
 * @throws ConfigError for a pattern that fits nothing, or gives Muon something that is no matrix
 */
export function routeParameters(
  parameters: readonly RoutedParameter[],
  overrides: Readonly<Record<string, RuleName>> = {},
): Route[] {
  const patterns = Object.entries(overrides).map(([text, rule]) => ({ text, rule, fits: matcher(text) }));
  for (const { text, fits } of patterns)
    if (!parameters.some(({ name }) => fits(name)))
      throw new ConfigError(
        `optimizer.muon_routes: no parameter of the model fits ${JSON.stringify(text)}; such a name is ${JSON.stringify(parameters[0]?.name ?? "")}`,
        { code: "config.muon_routes", details: { pattern: text } },
      );
  return parameters.map((parameter) => {
    const { name, shape, trainable } = parameter;
    if (!trainable) return { name, rule: "frozen", reason: "it is not trained" };
    const override = patterns.findLast(({ fits }) => fits(name));
    if (!override) return { name, ...byRule(parameter) };
    const { text, rule } = override;
    if (rule === "muon" && shape.length !== 2)
      throw new ConfigError(
        `optimizer.muon_routes: ${JSON.stringify(text)} gives ${name} to muon, but it has ${shape.length} dimensions and Muon is for matrices; give it to "adamw"`,
        { code: "config.muon_routes", details: { pattern: text, name } },
      );
    return { name, rule, reason: `muon_routes ${JSON.stringify(text)}` };
  });
}

function byRule({ name, shape, owner, isLinear }: RoutedParameter): Omit<Route, "name"> {
  const adamw = (reason: string) => ({ rule: "adamw" as const, reason });
  if (shape.length !== 2) return adamw(`it has ${shape.length} dimensions`);
  if (!isLinear || /embedding|norm/i.test(owner)) return adamw(`${owner} is no linear layer`);
  if (name.endsWith("bias")) return adamw("it is a bias");
  const part = name
    .toLowerCase()
    .split(".")
    .find((word) => notHidden.has(word));
  if (part !== undefined) return adamw(`"${part}" names an input or output layer`);
  return { rule: "muon", reason: "a matrix of a hidden linear layer" };
}

function matcher(pattern: string): (name: string) => boolean {
  const source = pattern
    .split("*")
    .map((text) => text.replace(/[.\\+?^${}()|[\]]/g, "\\$&"))
    .join(".*");
  const expression = new RegExp(`^${source}(\\..*)?$`);
  return (name) => expression.test(name);
}

/** One line per parameter. */
export function formatRoutes(routes: readonly Route[]): string {
  return routes.map(({ name, rule, reason }) => `${name} → ${rule}: ${reason}`).join("\n");
}
