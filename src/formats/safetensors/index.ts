// Public surface of the safetensors format that runs anywhere. Node programs take index.node.ts, which adds files.

export { cpuStateDict, cpuTensor, type StateValue } from "./container.js";
export { DTYPE_BITS, SAFETENSORS_DTYPES, type SafetensorsDtype } from "./dtypes.js";
export { SafetensorsError, type SafetensorsErrorFields, type SafetensorsProblem } from "./errors.js";
export type { TensorEntry } from "./header.js";
export { type PieceOptions, readPieces, type TensorPiece, tensorStreams } from "./pieces.js";
export {
  openSafetensors,
  parseSafetensors,
  type SafetensorsReader,
  type SafetensorsTensor,
  type SafetensorsView,
  type TensorReader,
} from "./reader.js";
export {
  openShardedSafetensors,
  parseShardIndex,
  type ShardedSafetensorsReader,
  type ShardIndex,
} from "./shards.js";
export { type ByteSource, blobSource, bytesSource, type UrlSourceOptions, urlSource } from "./source.js";
export { type TensorViews, tensorView, toFloat32 } from "./values.js";
export {
  type ByteSink,
  type ChunkProvider,
  encodeSafetensors,
  type MetadataInput,
  safetensorsSizeBytes,
  type TensorInput,
  type TensorStream,
  writeSafetensors,
} from "./writer.js";
