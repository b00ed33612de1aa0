import { fileURLToPath } from "node:url";

const source = (path: string) => fileURLToPath(new URL(`./src/${path}`, import.meta.url));

/** The package's own subpaths, resolved to sources: tests and examples share one set of modules. */
export const packageAlias = [
  { find: /^speedtronic\/(safetensors|torch)$/, replacement: source("formats/$1/index.node.ts") },
  { find: /^speedtronic\/distributed$/, replacement: source("distributed/index.node.ts") },
  { find: /^speedtronic\/([a-z-]+)$/, replacement: source("$1/index.ts") },
  { find: /^speedtronic$/, replacement: source("index.ts") },
];
