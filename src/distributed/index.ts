// Public surface of distributed training that runs anywhere.

export * from "./wire/index.js";
