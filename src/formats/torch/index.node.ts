// Public surface of the reader of PyTorch files in Node: everything of index.ts, and files.

export { openTorchFile } from "./file.node.js";
export * from "./index.js";
