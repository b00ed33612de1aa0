// A configuration after aliases and shorthands are undone and before values are checked: one entry per key that
// somebody set, with the place where they did. Overrides and derived values need to know what was set and what
// was not, which a finished configuration no longer tells.

import { ROOT_ALIASES, SECTION_ALIASES, WORD_SECTIONS } from "./aliases.js";
import { type CompatSwitch, compatPresets, compatSwitches } from "./compat-table.js";
import { type ConfigProblem, describeValue, type Location } from "./problem.js";
import { sections } from "./sections/index.js";
import { ROOT_FLAGS } from "./sections/root.js";
import { nearest, suggestKey } from "./suggest.js";
import { isMapping, type TreeField, type TreeNode, writtenValue } from "./tree.js";

export interface Entry {
  readonly value: unknown;
  /** The path as it was written, which aliases make differ from the canonical one. */
  readonly writtenAs: string;
  readonly location?: Location;
}

export class ConfigSource {
  constructor(
    /** By canonical path, such as `run.max_steps`. */
    readonly entries: ReadonlyMap<string, Entry>,
    readonly problems: readonly ConfigProblem[],
    readonly warnings: readonly ConfigProblem[],
    readonly fileName?: string,
  ) {}

  /** The same with everything that `later` sets replacing what is set here. */
  with(later: ConfigSource): ConfigSource {
    return new ConfigSource(
      new Map([...this.entries, ...later.entries]),
      [...this.problems, ...later.problems],
      [...this.warnings, ...later.warnings],
      this.fileName,
    );
  }
}

const sectionKeys: ReadonlyMap<string, readonly string[]> = new Map(
  sections.map((section) => [section.name, Object.keys(section.shape)]),
);
const sectionNames = [...sectionKeys.keys()].filter((name) => name !== "").join(", ");
const rootWords = [
  ...[...sectionKeys.keys()].filter((name) => name !== ""),
  ...(sectionKeys.get("") ?? []),
  ...Object.keys(ROOT_ALIASES),
];

function nounFor(value: unknown): string {
  if (typeof value === "string") return "text";
  return Array.isArray(value) ? "a list" : `a ${typeof value}`;
}

interface Options {
  readonly fileName?: string | undefined;
  /** For overrides: `hub.x` means `distributed.x` whatever the file has. */
  readonly aliasesAlways?: boolean;
}

/** Undoes aliases and shorthands. Unknown keys and misplaced values become problems of the result. */
export function readTree(tree: TreeNode, options: Options = {}): ConfigSource {
  const entries = new Map<string, Entry>();
  const problems: ConfigProblem[] = [];
  const warnings: ConfigProblem[] = [];
  const file = options.fileName === undefined ? {} : { file: options.fileName };

  const issue = (
    code: string,
    path: string,
    message: string,
    location: Location | undefined,
    suggestion?: string,
  ): ConfigProblem => ({
    code,
    path,
    message,
    ...file,
    ...(location === undefined ? {} : { location }),
    ...(suggestion === undefined ? {} : { suggestion }),
  });
  const setEntry = (path: string, writtenAs: string, node: TreeNode): void => {
    const location = node.location === undefined ? {} : { location: node.location };
    entries.set(path, { value: writtenValue(node), writtenAs, ...location });
  };

  function unknownKey(section: string, prefix: string, field: TreeField, siblings: readonly string[]): void {
    const suggestion = suggestKey(section, field.key, siblings);
    const known =
      section === "" && prefix === ""
        ? `the sections are ${sectionNames}`
        : `keys here are ${siblings.join(", ")}`;
    const ask = suggestion === undefined ? `; ${known}` : `; did you mean ${suggestion}?`;
    const path = prefix === "" ? field.key : `${prefix}.${field.key}`;
    problems.push(issue("config.unknown_key", path, `unknown key${ask}`, field.location, suggestion));
  }

  function readSection(name: string, written: string, node: TreeNode): void {
    if (isMapping(node)) {
      const known = sectionKeys.get(name) ?? [];
      for (const field of node.fields) {
        if (known.includes(field.key))
          setEntry(`${name}.${field.key}`, `${written}.${field.key}`, field.node);
        else unknownKey(name, written, field, known);
      }
      return;
    }
    if (node.value === null || node.value === undefined) return;
    const word = WORD_SECTIONS.get(name);
    if (word !== undefined && typeof node.value === "string") {
      setEntry(`${name}.${word}`, written, node);
      return;
    }
    if (name === "compat" && typeof node.value === "string") {
      readPreset(node.value, written, node.location);
      return;
    }
    // Not the value: whoever writes `distributed: hf_…` has put a secret there.
    const got = nounFor(node.value);
    const forms = word === undefined ? "" : `, or one word for ${name}.${word}`;
    problems.push(
      issue(
        "config.type",
        written,
        `expected a mapping of keys to values${forms}, got ${got}`,
        node.location,
      ),
    );
  }

  function readPreset(word: string, written: string, location: Location | undefined): void {
    const preset = Object.entries(compatPresets).find(([name]) => name === word.trim().toLowerCase())?.[1];
    if (preset === undefined) {
      const suggestion = nearest(word, Object.keys(compatPresets));
      const ask = suggestion === undefined ? "" : `; did you mean "${suggestion}"?`;
      const message = `expected "none", "python" or a mapping of switches, got ${describeValue(word)}${ask}`;
      problems.push(issue("config.value", written, message, location, suggestion));
      return;
    }
    for (const entry of compatSwitches as readonly CompatSwitch[]) {
      const place = location === undefined ? {} : { location };
      entries.set(`compat.${entry.key}`, { value: preset(entry), writtenAs: written, ...place });
    }
  }

  function readFlag(key: string, node: TreeNode): void {
    if (!isMapping(node)) {
      setEntry(key, key, node);
      return;
    }
    setEntry(key, key, { value: false, ...(node.location === undefined ? {} : { location: node.location }) });
    for (const field of node.fields) {
      if (field.key === "enabled") setEntry(key, `${key}.enabled`, field.node);
      else unknownKey(key, key, field, ["enabled"]);
    }
  }

  function readAlias(field: TreeField, target: string): void {
    const nested = entries.get(target);
    if (nested !== undefined && nested.value !== writtenValue(field.node)) {
      if (target.startsWith("optimizer.")) {
        const message = `contradicts ${target}, which is ${describeValue(nested.value)}; keep one of the two`;
        problems.push(issue("config.conflict", field.key, message, field.location));
      } else {
        const message = `replaces the different value of ${target}; keep one of the two`;
        warnings.push(issue("config.overridden", field.key, message, field.location));
      }
    }
    setEntry(target, field.key, field.node);
  }

  function readRoot(fields: readonly TreeField[]): void {
    const aliases: [TreeField, string][] = [];
    let distributedTaken = !options.aliasesAlways && fields.some((field) => field.key === "distributed");
    const sectionAlias = SECTION_ALIASES.map((alias) => fields.find((field) => field.key === alias)).find(
      (field) => field !== undefined,
    );
    for (const field of fields) {
      const target = Object.hasOwn(ROOT_ALIASES, field.key) ? ROOT_ALIASES[field.key] : undefined;
      if (target !== undefined) aliases.push([field, target]);
      else if (ROOT_FLAGS.has(field.key)) readFlag(field.key, field.node);
      else if (sectionKeys.get("")?.includes(field.key)) setEntry(field.key, field.key, field.node);
      else if (field.key !== "" && sectionKeys.has(field.key)) readSection(field.key, field.key, field.node);
      else if (field === sectionAlias && !distributedTaken) {
        readSection("distributed", field.key, field.node);
        distributedTaken = true;
      } else if ((SECTION_ALIASES as readonly string[]).includes(field.key)) {
        const message = `is another name of the section distributed, which is given too; move its keys there`;
        problems.push(issue("config.unknown_key", field.key, message, field.location, "distributed"));
      } else unknownKey("", "", field, rootWords);
    }
    for (const [field, target] of aliases) readAlias(field, target);
  }

  if (isMapping(tree)) readRoot(tree.fields);
  else if (tree.value !== null && tree.value !== undefined) {
    const got = nounFor(tree.value);
    problems.push(
      issue("config.root", "", `the configuration must be a mapping of sections, got ${got}`, tree.location),
    );
  }
  return new ConfigSource(entries, problems, warnings, options.fileName);
}
