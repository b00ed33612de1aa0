// Public surface of the reader of PyTorch files that runs anywhere. Node programs take index.node.ts, which adds files.

export { safetensorsDtypeOf, TORCH_DTYPE_BYTES, type TorchDtype } from "./dtypes.js";
export { type TorchErrorFields, TorchFileError, type TorchProblem } from "./errors.js";
export { DEFAULT_TORCH_LIMITS, type TorchLimits } from "./limits.js";
export { TorchTensorReader } from "./reader.js";
export { looksLikeTorchFile, readTorchFile, type TorchFile } from "./torch-file.js";
export { kindOf } from "./tree.js";
export {
  NumpyArray,
  TorchDtypeValue,
  TorchStorage,
  TorchTensor,
  type TorchValue,
} from "./values.js";
