// Public surface of distributed training in Node.

export * from "./index.js";
export { diskSurroundings } from "./node/aggregator-disk.node.js";
export { FolderTransport, type FolderTransportOptions } from "./transports/folder.node.js";
export type { Collected, FolderRetention } from "./transports/folder-collect.node.js";
export { nodeHub } from "./transports/hub-fetch.node.js";
export * from "./wire/index.node.js";
