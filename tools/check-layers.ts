// Fails when an import goes against the layers of src/, when a portable folder imports from `node:`, or when
// modules import one another in a circle. Run by `npm run check`.

import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import { fileURLToPath } from "node:url";

/** Layers from the bottom up. A folder may import from its own and from lower layers. */
const layers: readonly (readonly string[])[] = [
  ["util"],
  ["tensor"],
  ["nn", "optim", "schedule", "formats"],
  ["data", "checkpoint", "observe", "config", "distributed"],
  ["interchange", "hub-server"],
  ["train"],
  ["cli", "index.ts"],
];

/** Folders that must run in a browser. Files named `*.node.ts` are exempt. */
const portable = ["tensor", "nn", "optim", "schedule", "formats", "distributed"];

const root = resolve(dirname(fileURLToPath(import.meta.url)), "../src");
const files = readdirSync(root, { recursive: true, encoding: "utf8" })
  .filter((file) => file.endsWith(".ts") && !file.endsWith(".as.ts"))
  .map((file) => file.replaceAll("\\", "/"));

const layerOf = new Map(layers.flatMap((names, level) => names.map((name) => [name, level] as const)));
const roomOf = (file: string) => file.split("/")[0]!;
const problems: string[] = [];
const graph = new Map<string, string[]>();

for (const file of files) {
  const text = readFileSync(join(root, file), "utf8");
  const targets: string[] = [];
  for (const [statement, typeOnly, specifier] of importsOf(text)) {
    if (specifier.startsWith("node:")) {
      if (portable.includes(roomOf(file)) && !file.endsWith(".node.ts"))
        problems.push(
          `${file}: imports ${specifier}, but ${roomOf(file)}/ must run in a browser (name the file *.node.ts)`,
        );
      continue;
    }
    if (!specifier.startsWith(".")) continue;
    const target = relative(root, resolve(root, dirname(file), specifier))
      .replaceAll("\\", "/")
      .replace(/\.js$/, ".ts");
    if (target.startsWith("..")) continue;
    if (!isTypeOnly(statement, typeOnly)) targets.push(target);
    const [from, to] = [roomOf(file), roomOf(target)];
    const [fromLayer, toLayer] = [layerOf.get(from), layerOf.get(to)];
    if (fromLayer === undefined || toLayer === undefined)
      problems.push(`${file}: ${from} or ${to} has no layer`);
    else if (from !== to && toLayer >= fromLayer)
      problems.push(`${file}: ${from}/ must not import from ${to}/ (${specifier})`);
    if (portable.includes(from) && !file.endsWith(".node.ts") && target.endsWith(".node.ts"))
      problems.push(`${file}: a portable file must not import ${target}`);
  }
  graph.set(file, targets);
}

for (const cycle of findCycles(graph)) problems.push(`import cycle: ${cycle.join(" → ")}`);

if (problems.length > 0) {
  console.error(problems.join("\n"));
  console.error(`check-layers: ${problems.length} problem(s)`);
  process.exit(1);
}
console.log(`check-layers: ${files.length} files in ${layers.length} layers, no breach`);

function* importsOf(text: string): Generator<[string, string | undefined, string]> {
  const pattern =
    /^(?:import|export)\s+(type\s+)?(?:[^;"']*?\sfrom\s+)?["']([^"']+)["']|\bimport\(\s*["']([^"']+)["']\s*\)/gm;
  for (const match of text.matchAll(pattern)) yield [match[0], match[1], (match[2] ?? match[3])!];
}

/** Types vanish when compiled: they bind layers, but make no cycle at run time. */
function isTypeOnly(statement: string, typeOnly: string | undefined): boolean {
  if (typeOnly) return true;
  const names = /\{([^}]*)\}/s.exec(statement)?.[1];
  return names?.split(",").every((name) => name.trim() === "" || name.trim().startsWith("type ")) ?? false;
}

function findCycles(edges: ReadonlyMap<string, readonly string[]>): string[][] {
  const done = new Set<string>();
  const cycles: string[][] = [];
  const visit = (file: string, path: string[]) => {
    const at = path.indexOf(file);
    if (at >= 0) {
      cycles.push([...path.slice(at), file]);
      return;
    }
    if (done.has(file)) return;
    for (const next of edges.get(file) ?? []) visit(next, [...path, file]);
    done.add(file);
  };
  for (const file of edges.keys()) visit(file, []);
  return cycles;
}
