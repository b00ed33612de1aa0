// Starts worker threads from modules of this package, whether it runs as compiled JavaScript or, under test,
// straight from its TypeScript sources.

import { Worker } from "node:worker_threads";

/** `module` names the compiled file (`….js`), relative to the caller's own URL. */
export function startWorker(module: URL, name: string): Worker {
  // Messages are all the short-lived objects there are: a large nursery would only hold memory.
  const resourceLimits = { maxYoungGenerationSizeMb: 2 };
  if (!import.meta.url.endsWith(".ts")) return new Worker(module, { name, resourceLimits });
  const source = JSON.stringify(module.href.replace(/\.js$/, ".ts"));
  // Hooks given on a worker's command line do not reach it on Node 20; the loader's own interface does.
  const code = `import("tsx/esm/api").then(({ register }) => { register(); return import(${source}); })`;
  return new Worker(code, { name, eval: true, resourceLimits });
}
