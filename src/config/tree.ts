// A configuration as it was written: nested mappings whose keys and values know their place. Both files and
// values from code become such a tree, so that everything after it needs one path only.

import type { Location } from "./problem.js";

export interface TreeNode {
  /** Plain value of a scalar or list; undefined for a mapping. */
  readonly value: unknown;
  /** Present for mappings, in the order written; keys may repeat only as far as the parser lets them. */
  readonly fields?: readonly TreeField[];
  readonly location?: Location;
}

export interface TreeField {
  readonly key: string;
  readonly node: TreeNode;
  readonly location?: Location;
}

export function isMapping(node: TreeNode): node is TreeNode & { fields: readonly TreeField[] } {
  return node.fields !== undefined;
}

/** The plain value: a mapping as an object, anything else as it is. */
export function writtenValue(node: TreeNode): unknown {
  if (!isMapping(node)) return node.value;
  return Object.fromEntries(node.fields.map(({ key, node: child }) => [key, writtenValue(child)]));
}

function isPlainObject(value: unknown): value is Record<string, unknown> {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return false;
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === null || prototype === Object.prototype;
}

/** Keys whose value is undefined count as absent. `location` is given to every node. */
export function treeFromValue(value: unknown, location?: Location): TreeNode {
  const place = location === undefined ? {} : { location };
  if (!isPlainObject(value)) return { value, ...place };
  const fields = Object.entries(value)
    .filter(([, child]) => child !== undefined)
    .map(([key, child]) => ({ key, node: treeFromValue(child, location), ...place }));
  return { value: undefined, fields, ...place };
}
