// The vocabulary in which event groups document themselves: one row per event, one line per payload key.
// A key's kind also decides how text logs print a number, because JavaScript cannot tell 2.0 from 2.

/** `int` prints in full, `float` with 6 significant digits; the others print as they are. */
export type KeyKind = "int" | "float" | "text" | "flag" | "object";

export interface KeyDoc {
  readonly kind: KeyKind;
  readonly doc: string;
}

export interface EventDoc<Keys extends string = string> {
  readonly doc: string;
  /** Level of the event's line in text logs; `INFO` unless said otherwise. */
  readonly level?: "WARNING";
  readonly keys: { readonly [K in Keys]: KeyDoc };
}

/** Docs for a whole group: exhaustive over its events and over each event's keys, optional ones included. */
export type EventDocs<Group> = {
  readonly [E in keyof Group]: EventDoc<Extract<keyof Group[E], string>>;
};

const keyOf =
  (kind: KeyKind) =>
  (doc: string): KeyDoc => ({ kind, doc });

export const int = keyOf("int");
export const float = keyOf("float");
export const text = keyOf("text");
export const flag = keyOf("flag");
export const object = keyOf("object");
