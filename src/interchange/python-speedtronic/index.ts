// Public surface of the import of Python Speedtronic's own files.

export {
  importPythonCheckpoint,
  isPythonCheckpoint,
  type PythonImport,
  type PythonImportOptions,
  type PythonImportReport,
} from "./import-checkpoint.js";
export { importPythonOuterState, type ProcessedDelta, type PythonOuterState } from "./outer-state.js";
