// Public surface of the wire format in Node: everything of index.ts, and files on disk.

export { loadDeltaFile, saveDeltaFile } from "./delta-file.node.js";
export * from "./index.js";
export { loadOuterKernels } from "./outer-kernels.node.js";
