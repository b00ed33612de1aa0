// Reading a configuration file. JSON by the suffix .json, anything else as YAML, of which JSON is a part.

import { readdir, readFile } from "node:fs/promises";
import { basename, dirname } from "node:path";
import { ConfigError } from "../util/errors.js";
import { absoluteSpecifier } from "../util/user-module.node.js";
import { applyOverrides, type Override } from "./overrides.js";
import { type ResolveOptions, resolveConfig } from "./resolve.js";
import type { SpeedtronicConfig } from "./schema.js";
import type { ConfigSource } from "./source.js";
import { nearest } from "./suggest.js";
import { parseConfigText } from "./text.js";

async function unreadable(path: string, cause: unknown): Promise<ConfigError> {
  const code = (cause as NodeJS.ErrnoException).code;
  const fail = (reason: string, id = "config.file_unreadable"): ConfigError =>
    new ConfigError(`${path}: ${reason}`, { code: id, details: { path }, cause });
  if (code === "EISDIR") return fail("is a folder; name the configuration file in it");
  if (code === "EACCES" || code === "EPERM") return fail("may not be read; check its permissions");
  if (code !== "ENOENT" && code !== "ENOTDIR") return fail(`cannot be read (${(cause as Error).message})`);
  const folder = dirname(path);
  const present = await readdir(folder).catch(() => undefined);
  if (present === undefined) return fail(`no such file, and no folder ${folder}`, "config.file_missing");
  const near = nearest(basename(path), present);
  return fail(
    near === undefined ? "no such file" : `no such file; did you mean ${near}?`,
    "config.file_missing",
  );
}

/** Reads and parses without checking values, so that overrides can be laid over it. */
export async function readConfigFile(path: string): Promise<ConfigSource> {
  let bytes: Buffer;
  try {
    bytes = await readFile(path);
  } catch (error) {
    throw await unreadable(path, error);
  }
  let text: string;
  try {
    text = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch (cause) {
    throw new ConfigError(`${path}: is not UTF-8 text`, {
      code: "config.encoding",
      details: { path },
      cause,
    });
  }
  return parseConfigText(text, { format: /\.json$/i.test(path) ? "json" : "yaml", fileName: path });
}

export interface LoadConfigOptions extends ResolveOptions {
  readonly overrides?: readonly Override[];
  /**
   * Called with what `plugins` names, paths absolute, before names that plugins bring are checked. Without it nothing
   * of a user's is run here, and such names are checked when the run is built.
   */
  readonly loadPlugins?: (plugins: readonly string[], folder: string) => Promise<unknown>;
}

/** Reads, overrides, checks and completes. @throws ConfigError listing every problem, and what loading plugins throws. */
export async function loadConfigFile(
  path: string,
  { overrides = [], loadPlugins, ...options }: LoadConfigOptions = {},
): Promise<SpeedtronicConfig> {
  const source = applyOverrides(await readConfigFile(path), overrides);
  const entry = source.entries.get("plugins");
  const named = entry?.value;
  if (!isListOfTexts(named)) return resolveConfig(source, options);
  // What an option names begins where the command was given, what the file names beside the file.
  const folder = entry?.location?.kind === "option" ? "." : dirname(path);
  const plugins = named.map((plugin) => absoluteSpecifier(plugin, folder));
  await loadPlugins?.(plugins, folder);
  const config = resolveConfig(source, { ...options, pluginsLoaded: loadPlugins !== undefined });
  return { ...config, plugins };
}

function isListOfTexts(value: unknown): value is string[] {
  return Array.isArray(value) && value.length > 0 && value.every((item) => typeof item === "string");
}
