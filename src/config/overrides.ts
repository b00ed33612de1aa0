// Values given beside the file: `--set key.path=value`, dedicated options such as `--max-steps`, or the same from
// code. Each is read as a small configuration of its own and laid over the file's, so it goes through the same
// aliases, checks and suggestions.

import { ConfigError } from "../util/errors.js";
import { parseTree } from "./parse.js";
import type { ConfigProblem, Location } from "./problem.js";
import { resolvePlainScalar } from "./scalars.js";
import type { ConfigInput } from "./schema.js";
import { ConfigSource, readTree } from "./source.js";
import { type TreeNode, treeFromValue } from "./tree.js";

/** `"optimizer.lr=3e-4"` with its value read like an unquoted YAML value, or path and value apart. */
export type Override = string | { readonly path: string; readonly value: unknown; readonly option?: string };

/** Lists, mappings and quoted texts are YAML; anything else is one scalar up to the end of the argument. */
function readValue(text: string, location: Location): TreeNode {
  const trimmed = text.trim();
  if (/^[[{"']/.test(trimmed)) return parseTree(trimmed, { format: "yaml", location }).tree;
  const value = resolvePlainScalar(trimmed);
  return { value: typeof value === "string" ? text : value, location };
}

function nest(path: readonly string[], node: TreeNode, location: Location): TreeNode {
  return path.reduceRight<TreeNode>(
    (child, key) => ({ value: undefined, fields: [{ key, node: child, location }], location }),
    node,
  );
}

function readOverride(override: Override): ConfigSource {
  const isText = typeof override === "string";
  const equals = isText ? override.indexOf("=") : -1;
  const path = isText ? (equals < 0 ? override : override.slice(0, equals)).trim() : override.path;
  // The value is left out of the place: it may be a secret.
  const option = isText ? `--set ${path}`.trim() : (override.option ?? `override ${path}`);
  const location: Location = { kind: "option", option };
  const fail = (message: string): ConfigSource => {
    const problem: ConfigProblem = { code: "config.override", path: "", message, location };
    return new ConfigSource(new Map(), [problem], []);
  };

  const keys = path.split(".");
  if ((isText && equals < 0) || keys.some((key) => key === "")) {
    return fail("expected key.path=value, such as optimizer.lr=3e-4");
  }
  try {
    const node = isText
      ? readValue(override.slice(equals + 1), location)
      : treeFromValue(override.value, location);
    return readTree(nest(keys, node, location), { aliasesAlways: true });
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    return fail(
      "the value begins like a list, mapping or quoted text but is not one; check brackets and quotes",
    );
  }
}

/** Lays `overrides` over `base`; the last one wins. Mistakes are reported by `resolveConfig` with all others. */
export function applyOverrides(
  base: ConfigSource | ConfigInput,
  overrides: readonly Override[],
): ConfigSource {
  const start = base instanceof ConfigSource ? base : readTree(treeFromValue(base));
  return overrides.reduce<ConfigSource>((source, override) => source.with(readOverride(override)), start);
}
