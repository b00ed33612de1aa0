// Public surface of distributed training in Node.

export * from "./wire/index.node.js";
