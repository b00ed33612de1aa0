// Public surface of distributed training in Node.

export * from "./index.js";
export { diskSurroundings } from "./node/aggregator-disk.node.js";
export * from "./wire/index.node.js";
