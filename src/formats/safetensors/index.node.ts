// Public surface of the safetensors format in Node: everything of index.ts, and files.

export {
  fileSource,
  loadSafetensors,
  openSafetensorsFile,
  openShardedSafetensorsFiles,
  readMetadata,
  saveSafetensors,
  saveSafetensorsFile,
  type TensorMap,
} from "./file.node.js";
export * from "./index.js";
export { openSafetensorsFileSync, type SafetensorsSyncFile } from "./sync-file.node.js";
