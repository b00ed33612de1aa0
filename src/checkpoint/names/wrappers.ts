// Names as they were before wrappers got hold of a model: data-parallel training puts `module.` in front, compiling
// `_orig_mod.`, sharding `_fsdp_wrapped_module.`, adapters `base_model.model.`; they stack, and may stand inside a
// name where a part was wrapped. The one mapping that undoes this, on load only. Pure.

import { listed, nameError } from "./errors.js";

/** What wrappers insert, as runs of whole name parts. */
export const wrapperPrefixes = [
  "module.",
  "_orig_mod.",
  "_fsdp_wrapped_module.",
  "base_model.model.",
] as const;

const wrappers: readonly (readonly string[])[] = wrapperPrefixes.map((prefix) =>
  prefix.slice(0, -1).split("."),
);
/** A name with more insertions than this is no wrapped model's; all subsets of them are tried. */
const maxInsertions = 12;

/** Old name → new name for every name, in the given order. */
export type NameMapping = ReadonlyMap<string, string>;

/**
 * Maps each name to the expected one that it stands for. Names that fit already stay, and if all do, nothing is
 * touched: a model may well have a part called `module`. What fits nowhere keeps its name, for a load policy to judge.
 *
 * @throws CheckpointError `checkpoint.ambiguous` where one name could be several, `checkpoint.collision` where several
 * names are one.
 */
export function canonicalNames(names: Iterable<string>, expected: ReadonlySet<string>): NameMapping {
  const given = [...names];
  if (given.every((name) => expected.has(name))) return new Map(given.map((name) => [name, name]));
  const unwrapped = withoutCommonPrefix(given, expected);
  if (unwrapped) return unwrapped;
  const mapping = new Map<string, string>();
  const ambiguous: string[] = [];
  for (const name of given) {
    const fitting = variants(name).filter((variant) => expected.has(variant));
    if (fitting.length > 1) ambiguous.push(`${name} could be ${fitting.join(" or ")}`);
    mapping.set(name, fitting[0] ?? name);
  }
  if (ambiguous.length > 0) {
    throw nameError(
      "ambiguous",
      ["it is not clear which tensor is meant; rename with a rule", ...listed("ambiguous", ambiguous)].join(
        "\n",
      ),
      { ambiguous },
    );
  }
  refuseCollisions(mapping);
  return mapping;
}

/**
 * Removes every wrapper's insertion, for tools that know no model. Prefer {@link canonicalNames}, which cannot take
 * away a part that the model really has.
 *
 * @throws CheckpointError `checkpoint.collision`
 */
export function stripWrappers(names: Iterable<string>): NameMapping {
  const mapping = new Map([...names].map((name) => [name, bare(name)]));
  refuseCollisions(mapping);
  return mapping;
}

/** @throws CheckpointError `checkpoint.collision` naming all old names of a new one. */
export function refuseCollisions(mapping: NameMapping): void {
  const collisions = collisionsOf(mapping);
  if (collisions.length === 0) return;
  throw nameError(
    "collision",
    [
      "several tensors would get the same name, and one of them would be lost; nothing was renamed",
      ...listed("collisions", collisions),
    ].join("\n"),
    { collisions },
  );
}

/** `new ← old, old` for every new name that has several. */
export function collisionsOf(mapping: NameMapping): string[] {
  const sources = new Map<string, string[]>();
  for (const [from, to] of mapping) sources.set(to, [...(sources.get(to) ?? []), from]);
  return [...sources].filter(([, from]) => from.length > 1).map(([to, from]) => `${to} ← ${from.join(", ")}`);
}

/**
 * The model as a whole was wrapped, once or several times: the same prefixes before every name. Looked for first, since
 * it is clear even where the model has parts that are called like wrappers.
 */
function withoutCommonPrefix(
  names: readonly string[],
  expected: ReadonlySet<string>,
): NameMapping | undefined {
  let cut = 0;
  for (;;) {
    const prefix = wrapperPrefixes.find((candidate) =>
      names.every((name) => name.startsWith(candidate, cut)),
    );
    if (prefix === undefined) return undefined;
    cut += prefix.length;
    if (names.every((name) => expected.has(name.slice(cut))))
      return new Map(names.map((name) => [name, name.slice(cut)]));
  }
}

/** The name, and all that remain of it when some of the insertions in it are taken out; without repetition. */
function variants(name: string): string[] {
  const parts = name.split(".");
  const found = insertions(parts);
  if (found.length > maxInsertions) return [...new Set([name, bare(name)])];
  const all = new Set<string>();
  for (let chosen = 0; chosen < 2 ** found.length; chosen += 1)
    all.add(
      without(
        parts,
        found.filter((_, i) => (chosen >> i) & 1),
      ),
    );
  return [...all];
}

function bare(name: string): string {
  const parts = name.split(".");
  return without(parts, insertions(parts));
}

interface Insertion {
  readonly start: number;
  readonly length: number;
}

/** Where a wrapper's parts stand; the last part is the tensor's own name and never an insertion. */
function insertions(parts: readonly string[]): Insertion[] {
  const found: Insertion[] = [];
  for (let start = 0; start < parts.length - 1; ) {
    const wrapper = wrappers.find(
      (candidate) =>
        start + candidate.length < parts.length && candidate.every((part, i) => parts[start + i] === part),
    );
    if (wrapper) found.push({ start, length: wrapper.length });
    start += wrapper?.length ?? 1;
  }
  return found;
}

function without(parts: readonly string[], removed: readonly Insertion[]): string {
  const isRemoved = (index: number) =>
    removed.some(({ start, length }) => index >= start && index < start + length);
  return parts.filter((_, index) => !isRemoved(index)).join(".");
}
