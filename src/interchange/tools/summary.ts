// What is in a set of tensors, as plain data: totals and a tree of names. Needs headers only.

import type { SafetensorsDtype, TensorEntry } from "../../formats/safetensors/index.js";

export interface Totals {
  readonly tensors: number;
  readonly elements: number;
  readonly sizeBytes: number;
  /** By dtype, largest first. */
  readonly dtypes: readonly {
    readonly dtype: SafetensorsDtype;
    readonly tensors: number;
    readonly elements: number;
    readonly sizeBytes: number;
  }[];
}

export const elementCount = ({ shape }: Pick<TensorEntry, "shape">): number =>
  shape.reduce((product, size) => product * size, 1);

export function totalsOf(entries: Iterable<TensorEntry>): Totals {
  const kinds = new Map<SafetensorsDtype, { tensors: number; elements: number; sizeBytes: number }>();
  for (const entry of entries) {
    const kind = kinds.get(entry.dtype) ?? { tensors: 0, elements: 0, sizeBytes: 0 };
    kinds.set(entry.dtype, kind);
    kind.tensors += 1;
    kind.elements += elementCount(entry);
    kind.sizeBytes += entry.sizeBytes;
  }
  const dtypes = [...kinds].map(([dtype, kind]) => ({ dtype, ...kind }));
  dtypes.sort((a, b) => b.sizeBytes - a.sizeBytes);
  const sum = (key: "tensors" | "elements" | "sizeBytes") =>
    dtypes.reduce((total, kind) => total + kind[key], 0);
  return { tensors: sum("tensors"), elements: sum("elements"), sizeBytes: sum("sizeBytes"), dtypes };
}

/** A part of the dotted names. A node can be a tensor and have parts below it as well. */
export interface NameNode {
  /** One segment of a name; several joined by dots where each has only the next below it. */
  readonly label: string;
  readonly entry: TensorEntry | undefined;
  readonly children: readonly NameNode[];
  /** How many numbered siblings in a row this node stands for, all with the same tensors below them. */
  readonly repeats: number;
}

/** The tree of names, in the order of numbers where segments are numbers. `fold` joins siblings that are alike. */
export function nameTree(entries: Iterable<TensorEntry>, fold: boolean): readonly NameNode[] {
  const root = newDraft("");
  for (const entry of entries) {
    let node = root;
    for (const label of entry.name.split(".")) {
      let next = node.children.get(label);
      if (next === undefined) {
        next = newDraft(label);
        node.children.set(label, next);
      }
      node = next;
    }
    node.entry = entry;
  }
  return finish(root, fold);
}

interface Draft {
  readonly label: string;
  readonly children: Map<string, Draft>;
  entry: TensorEntry | undefined;
}

const newDraft = (label: string): Draft => ({ label, children: new Map(), entry: undefined });
const isNumber = (label: string) => /^[0-9]{1,15}$/.test(label);

function finish(draft: Draft, fold: boolean): NameNode[] {
  const children = [...draft.children.values()];
  children.sort((a, b) => {
    if (isNumber(a.label) && isNumber(b.label)) return Number(a.label) - Number(b.label);
    return isNumber(a.label) ? -1 : isNumber(b.label) ? 1 : 0;
  });
  const nodes = children.map((child) => joined(child, fold));
  return fold ? folded(nodes) : nodes;
}

function joined(draft: Draft, fold: boolean): NameNode {
  const children = finish(draft, fold);
  const [only] = children;
  // `attn.q.weight` on one line says as much as three lines.
  if (children.length === 1 && only !== undefined && draft.entry === undefined) {
    return { ...only, label: `${draft.label}.${only.label}` };
  }
  return { label: draft.label, entry: draft.entry, children, repeats: 1 };
}

/** Runs of numbered nodes with the same shape become one node, such as `0…11`. */
function folded(nodes: readonly NameNode[]): NameNode[] {
  const out: NameNode[] = [];
  for (let i = 0; i < nodes.length; ) {
    const node = nodes[i]!;
    let end = i + 1;
    const [number, rest] = splitNumber(node.label);
    if (number !== undefined) {
      const signature = signatureOf(node, rest);
      while (end < nodes.length) {
        const [nextNumber, nextRest] = splitNumber(nodes[end]!.label);
        if (nextNumber !== number + (end - i) || signatureOf(nodes[end]!, nextRest) !== signature) break;
        end++;
      }
    }
    const count = end - i;
    out.push(
      count > 1 ? { ...node, label: `${number}…${number! + count - 1}${rest}`, repeats: count } : node,
    );
    i = end;
  }
  return out;
}

function splitNumber(label: string): [number | undefined, string] {
  const match = /^([0-9]{1,15})(\..*)?$/.exec(label);
  return match === null ? [undefined, label] : [Number(match[1]), match[2] ?? ""];
}

function signatureOf({ entry, children, repeats }: NameNode, label: string): string {
  const self = entry === undefined ? "" : `${entry.dtype}[${entry.shape.join(",")}]`;
  return `${label}:${self}x${repeats}(${children.map((child) => signatureOf(child, child.label)).join(";")})`;
}
