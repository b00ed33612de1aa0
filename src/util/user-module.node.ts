// Modules of a user's own, named in a configuration: where they are, and importing them. TypeScript needs a loader
// from Node 20 on until Node strips types itself; `tsx` is one if it is installed.

import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { isAbsolute, join, resolve } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { ConfigError, SpeedtronicError } from "./errors.js";

/** Whether `specifier` names a file, not a package. */
export function isPathSpecifier(specifier: string): boolean {
  return /^\.\.?([/\\]|$)/.test(specifier) || isAbsolute(specifier);
}

/** A file by its absolute path, whatever folder is the present one later; packages stay names. */
export function absoluteSpecifier(specifier: string, folder: string): string {
  return isPathSpecifier(specifier) ? resolve(folder, specifier) : specifier;
}

/**
 * The URL of the module that `specifier` names.
 * @param folder where relative paths begin, and the first place to look for packages
 * @throws ConfigError `plugin.not_found`
 */
export async function locateModule(specifier: string, folder: string): Promise<string> {
  if (isPathSpecifier(specifier)) {
    const path = resolve(folder, specifier);
    if (existsSync(path)) return pathToFileURL(path).href;
    throw notFound(specifier, `there is no file ${path}`);
  }
  for (const base of new Set([resolve(folder), process.cwd()])) {
    const found = await locatePackage(specifier, base);
    if (found !== undefined) return found;
  }
  throw notFound(
    specifier,
    `no package of this name is installed; npm install ${specifier}, or begin the path of a file with ./`,
  );
}

/** What `import` would find from `folder`; an entry for `require` alone counts where there is none. */
async function locatePackage(specifier: string, folder: string): Promise<string | undefined> {
  const require = createRequire(join(folder, "importer.js"));
  const [, name, rest = ""] = /^((?:@[^/]+\/)?[^/]+)(\/.*)?$/.exec(specifier) ?? [];
  if (name === undefined) return undefined;
  for (const modules of require.resolve.paths(name) ?? []) {
    const root = join(modules, name);
    const text = await readFile(join(root, "package.json"), "utf8").catch(() => undefined);
    if (text === undefined) continue;
    const entry = importEntry((JSON.parse(text) as { exports?: unknown }).exports, `.${rest}`);
    if (entry !== undefined) return pathToFileURL(join(root, entry)).href;
    break;
  }
  try {
    return pathToFileURL(require.resolve(specifier)).href;
  } catch {
    return undefined;
  }
}

/** The path that `exports` of a package gives to an import of `subpath`, which is `.` for the package itself. */
function importEntry(exports: unknown, subpath: string): string | undefined {
  if (typeof exports === "string") return subpath === "." ? exports : undefined;
  if (typeof exports !== "object" || exports === null) return undefined;
  const table = exports as Readonly<Record<string, unknown>>;
  const hasSubpaths = Object.keys(table).some((key) => key.startsWith("."));
  if (hasSubpaths) return importEntry(table[subpath], ".");
  for (const condition of ["node", "import", "default"]) {
    const found = importEntry(table[condition], subpath);
    if (found !== undefined) return found;
  }
  return undefined;
}

function notFound(specifier: string, reason: string): ConfigError {
  return new ConfigError(`plugin ${specifier}: ${reason}`, {
    code: "plugin.not_found",
    details: { plugin: specifier },
  });
}

/**
 * Imports the module at `url`; `specifier` is what messages call it.
 * @throws ConfigError `plugin.no_typescript`, `plugin.failed`; typed errors of the module pass through.
 */
export async function importModule(
  url: string,
  specifier: string,
): Promise<Readonly<Record<string, unknown>>> {
  if (isTypeScript(url) && !runsTypeScript()) await enableTypeScript(specifier);
  try {
    return (await import(url)) as Record<string, unknown>;
  } catch (error) {
    if (error instanceof SpeedtronicError) throw error;
    const reason = error instanceof Error ? error.message : String(error);
    throw new ConfigError(`plugin ${specifier} could not be loaded: ${reason}`, {
      code: "plugin.failed",
      details: { plugin: specifier, url },
      cause: error,
    });
  }
}

const isTypeScript = (url: string): boolean => /\.[cm]?tsx?$/.test(url);

/** This very module runs from its source, or Node strips types. */
function runsTypeScript(): boolean {
  const { typescript } = process.features as { typescript?: unknown };
  return import.meta.url.endsWith(".ts") || Boolean(typescript);
}

/** Of an optional package. Files of packages that do not call themselves modules are CommonJS, with a loader of its own. */
const loaders = ["tsx/cjs/api", "tsx/esm/api"] as const;

let enabled: Promise<boolean> | undefined;

/** Once per thread. What a loader can do further on is not taken back. */
async function enableTypeScript(specifier: string): Promise<void> {
  enabled ??= enableLoaders();
  if (await enabled) return;
  enabled = undefined;
  throw new ConfigError(
    `plugin ${specifier} is TypeScript, which Node ${process.versions.node} does not run by itself: npm install --save-dev tsx, ` +
      "or compile it and name the .js file",
    { code: "plugin.no_typescript", details: { plugin: specifier, node: process.versions.node } },
  );
}

async function enableLoaders(): Promise<boolean> {
  for (const folder of [fileURLToPath(new URL(".", import.meta.url)), process.cwd()]) {
    const urls = await Promise.all(loaders.map((name) => locatePackage(name, folder)));
    if (urls.some((url) => url === undefined)) continue;
    for (const url of urls as string[]) {
      const { register } = (await import(url)) as { register: () => unknown };
      register();
    }
    return true;
  }
  return false;
}
