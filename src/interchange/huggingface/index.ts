// Public surface of the exchange with Hugging Face `transformers`. Node only; needs no Python and runs no code
// that a folder brings.

export { HuggingFaceError, UnsupportedModelError } from "./errors.js";
export { type ExportedModel, type ExportOptions, exportHuggingFace } from "./export.js";
export { type ImportedModel, importHuggingFace } from "./import.js";
export type { ImportedModelSection, ReadOptions } from "./model-config.js";
export { type HuggingFaceConfig, readHuggingFaceConfig, supportedModelTypes } from "./read-config.js";
export { type SaveImportedOptions, saveImportedModel } from "./save-imported.js";
export type { ExportableModel } from "./write-config.js";
