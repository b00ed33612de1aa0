// The fixed table of names that a pickle may mention. Each is an inert entry of ours: the strings from the file
// are looked up here and lead to nothing else.

import type { TorchDtype } from "../dtypes.js";
import { DTYPE_ALIASES, STORAGE_DTYPES, TORCH_DTYPE_BYTES } from "../dtypes.js";
import { TorchDtypeValue } from "../values.js";
import { constructors } from "./constructors.js";
import { PickleClass, PickleFunction } from "./items.js";

type PickleName = PickleFunction | PickleClass;

/** Other names of modules: those of Python 2, and numpy's since its version 2. */
const MODULE_ALIASES: Readonly<Record<string, string>> = {
  __builtin__: "builtins",
  "numpy._core.multiarray": "numpy.core.multiarray",
  "numpy._core.numeric": "numpy.core.numeric",
};

const PASSIVE_CLASSES = [
  ["torch", "Tensor"],
  ["torch.nn.parameter", "Parameter"],
  ["torch.nn.parameter", "Buffer"],
  ["numpy", "ndarray"],
  // What a defaultdict makes for absent keys; it is not needed to read the present ones.
  ["builtins", "dict"],
  ["builtins", "list"],
  ["builtins", "int"],
  ["builtins", "float"],
  ["builtins", "str"],
] as const;

function buildTable(): Map<string, PickleName | TorchDtypeValue> {
  const table = new Map<string, PickleName | TorchDtypeValue>();
  const key = (module: string, name: string) => `${module}\n${name}`;
  for (const [module, functions] of Object.entries(constructors))
    for (const [name, call] of Object.entries(functions))
      table.set(key(module, name), new PickleFunction(`${module}.${name}`, call));
  for (const [module, name] of PASSIVE_CLASSES)
    table.set(key(module, name), new PickleClass(`${module}.${name}`));
  for (const module of ["torch", "torch.cuda"])
    for (const [name, dtype] of Object.entries(STORAGE_DTYPES))
      table.set(key(module, name), new PickleClass(`${module}.${name}`, { dtype }));
  for (const module of ["torch.storage", "torch"])
    table.set(
      key(module, "UntypedStorage"),
      new PickleClass(`${module}.UntypedStorage`, { dtype: undefined }),
    );
  for (const name of Object.keys(TORCH_DTYPE_BYTES) as TorchDtype[])
    table.set(key("torch", name), new TorchDtypeValue(name));
  for (const [name, dtype] of Object.entries(DTYPE_ALIASES))
    table.set(key("torch", name), new TorchDtypeValue(dtype));
  return table;
}

const NAMES = buildTable();

/** Undefined for every name that is not in the table. */
export function lookUpName(module: string, name: string): PickleName | TorchDtypeValue | undefined {
  const known = Object.hasOwn(MODULE_ALIASES, module) ? MODULE_ALIASES[module]! : module;
  return NAMES.get(`${known}\n${name}`);
}
