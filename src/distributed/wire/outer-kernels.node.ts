// The kernels of the outer step in Node: WebAssembly, made once per thread.

import { loadKernels } from "../../tensor/kernels/load.node.js";
import type { OuterKernels } from "./outer-kernels.js";
import { createWasmKernels } from "./wasm-kernels.js";

let made: Promise<OuterKernels> | undefined;

/** Fast kernels with the bits of the portable ones, to pass as `kernels`. Errors of reading the package pass through. */
export function loadOuterKernels(): Promise<OuterKernels> {
  made ??= loadKernels().then(createWasmKernels);
  return made;
}
