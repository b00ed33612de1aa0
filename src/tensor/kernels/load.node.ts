// Finds and compiles the kernels' WebAssembly in Node. A browser would fetch the same file.

import { readFile } from "node:fs/promises";

let compiled: Promise<WebAssembly.Module> | undefined;

/** The compiled kernels, read once per thread. */
export function loadKernels(): Promise<WebAssembly.Module> {
  compiled ??= readFile(new URL("../../../wasm/kernels.wasm", import.meta.url)).then((bytes) =>
    WebAssembly.compile(bytes),
  );
  return compiled;
}
