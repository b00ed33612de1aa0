// Checks the tree that a pickle made, and lists its tensors. Values may be shared: a few bytes can describe a tree
// that takes for ever to walk, or one that contains itself. After this check any program may walk it freely.

import { TORCH_DTYPE_BYTES } from "./dtypes.js";
import { quote, TorchFileError } from "./errors.js";
import { FREE_EXPANSION_BYTES, type TorchLimits } from "./limits.js";
import { isStandIn } from "./pickle/items.js";
import { NumpyArray, TorchDtypeValue, TorchStorage, TorchTensor, type TorchValue } from "./values.js";

const MAX_NAME_LENGTH = 4096;
/** Of all names together: a long key above many tensors would be copied into each name. */
const MAX_NAME_LENGTHS = 2 ** 25;

/** @throws TorchFileError `limit` for what is too deep, too large or circular; `forbidden_call` for stand-ins. */
export function checkTree(root: TorchValue, limits: TorchLimits, file: string | undefined): void {
  const measured = new Map<object, { size: number; height: number }>();
  const open = new Set<object>();
  const refuse = (message: string) => {
    throw new TorchFileError("limit", message, { file });
  };
  const measure = (value: TorchValue, depth: number): { size: number; height: number } => {
    if (isStandIn(value))
      throw new TorchFileError("forbidden_call", `this file holds a reference to ${value.name} as a value`, {
        file,
      });
    if (value instanceof NumpyArray && value.dtype === "")
      throw new TorchFileError("pickle", "a numpy array without contents", { file });
    const children = childrenOf(value);
    if (children === undefined) return LEAF;
    const known = measured.get(value as object);
    if (known !== undefined) return known;
    if (open.has(value as object)) refuse("a list or dict of the file contains itself");
    if (depth >= limits.maxDepth) refuse(`values lie more than ${limits.maxDepth} deep in one another`);
    open.add(value as object);
    let size = 1;
    let height = 0;
    for (const child of children) {
      const inner = measure(child, depth + 1);
      size += inner.size;
      height = Math.max(height, inner.height);
    }
    open.delete(value as object);
    if (size > limits.maxExpandedValues)
      refuse(
        `the file describes more than ${limits.maxExpandedValues} values, since lists or dicts stand in it many times over`,
      );
    if (height + 1 > limits.maxDepth) refuse(`values lie more than ${limits.maxDepth} deep in one another`);
    const result = { size, height: height + 1 };
    measured.set(value as object, result);
    return result;
  };
  measure(root, 0);
}

const LEAF = { size: 1, height: 0 };

function childrenOf(value: TorchValue): Iterable<TorchValue> | undefined {
  if (Array.isArray(value)) return value;
  if (value instanceof Set) return value;
  return value instanceof Map ? [...value.keys(), ...value.values()] : undefined;
}

/**
 * Tensors by dotted name: keys of dicts and positions in lists, joined by dots. A file that is one tensor alone
 * calls it `tensor`.
 * @throws TorchFileError `duplicate_name`, and `limit` when the tensors are far larger than the file.
 */
export function collectTensors(
  root: TorchValue,
  limits: TorchLimits,
  file: { readonly name: string | undefined; readonly sizeBytes: number },
): Map<string, TorchTensor> {
  const tensors = new Map<string, TorchTensor>();
  const limitBytes = FREE_EXPANSION_BYTES + limits.maxExpansion * file.sizeBytes;
  const withoutTensors = new Set<object>();
  let totalBytes = 0;
  let nameLengths = 0;
  /** Whether a part holds tensors: others are not walked again where the tree refers to them many times. */
  const visit = (value: TorchValue, path: string): boolean => {
    if (value instanceof TorchTensor) {
      const name = path === "" ? "tensor" : path;
      if (tensors.has(name))
        throw new TorchFileError("duplicate_name", "two tensors of the file have this name", {
          file: file.name,
          tensor: name,
        });
      nameLengths += name.length;
      if (name.length > MAX_NAME_LENGTH || nameLengths > MAX_NAME_LENGTHS)
        throw new TorchFileError(
          "limit",
          `the names of tensors are too long, such as ${quote(name.slice(0, 200))}`,
          {
            file: file.name,
          },
        );
      totalBytes += value.elementCount * TORCH_DTYPE_BYTES[value.dtype];
      if (totalBytes > limitBytes)
        throw new TorchFileError(
          "limit",
          `written out, the tensors up to this one take ${totalBytes} bytes, though the file has ${file.sizeBytes}: ` +
            "they repeat or share their storage more than honest files do",
          { file: file.name, tensor: name },
        );
      tensors.set(name, value);
      return true;
    }
    if (typeof value !== "object" || value === null || withoutTensors.has(value)) return false;
    let hasTensors = false;
    for (const [key, child] of namedChildren(value))
      hasTensors = visit(child, path === "" ? key : `${path}.${key}`) || hasTensors;
    if (!hasTensors) withoutTensors.add(value);
    return hasTensors;
  };
  visit(root, "");
  return tensors;
}

function namedChildren(value: TorchValue): Iterable<[string, TorchValue]> {
  if (Array.isArray(value)) return value.map((child, index): [string, TorchValue] => [String(index), child]);
  if (!(value instanceof Map)) return [];
  return [...value].map(([key, child]): [string, TorchValue] => [keyText(key), child]);
}

/** Tuples of plain values in full; what they hold beyond that could be of any size. */
function keyText(key: TorchValue): string {
  if (!Array.isArray(key)) return String(key);
  return `(${key.map((part: TorchValue) => (typeof part === "object" && part !== null ? "…" : String(part))).join(",")})`;
}

/**
 * The value at `path`: keys of dicts, positions of lists.
 * @throws TorchFileError `tensor_not_found`
 */
export function valueAt(root: TorchValue, path: readonly string[], file: string | undefined): TorchValue {
  let value = root;
  for (const [depth, step] of path.entries()) {
    const found = [...namedChildren(value)].find(([key]) => key === step);
    if (found === undefined) {
      const where = path.slice(0, depth).map(quote).join(" in ") || "the file";
      throw new TorchFileError("tensor_not_found", `${where} has no entry ${quote(step)}`, { file });
    }
    value = found[1];
  }
  return value;
}

/** What a value is, in a word: for listings. */
export function kindOf(value: TorchValue): string {
  if (value === null) return "None";
  if (value instanceof TorchTensor) return "tensor";
  if (value instanceof TorchStorage) return "storage";
  if (value instanceof TorchDtypeValue) return "dtype";
  if (value instanceof NumpyArray) return "numpy array";
  if (value instanceof Map) return "dict";
  if (value instanceof Set) return "set";
  if (value instanceof Uint8Array) return "bytes";
  if (Array.isArray(value)) return "list";
  return typeof value === "string" ? "text" : typeof value === "boolean" ? "bool" : "number";
}
