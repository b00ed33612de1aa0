// The built package that the benchmarks measure: dist/, or the folder named by SPEEDTRONIC_BENCH_DIST.

import { resolve, sep } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

export const distFolder = resolve(
  process.env.SPEEDTRONIC_BENCH_DIST ?? fileURLToPath(new URL("../dist", import.meta.url)),
);

/** The module at `path` within the built package. */
export function importBuilt(path) {
  return import(new URL(path, pathToFileURL(distFolder + sep)).href);
}
