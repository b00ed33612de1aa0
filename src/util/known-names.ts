// Names that were registered in this process, for parts that must know that a name exists and may not know what it
// stands for: a configuration is checked below the folders that hold datasets and tokenizers.

export type NamedKind = "dataset" | "tokenizer";

const names: Readonly<Record<NamedKind, Set<string>>> = { dataset: new Set(), tokenizer: new Set() };

export function noteName(kind: NamedKind, name: string): void {
  names[kind].add(name);
}

export function isKnownName(kind: NamedKind, name: string): boolean {
  return names[kind].has(name);
}
