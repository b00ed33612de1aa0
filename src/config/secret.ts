// A value that must never reach a screen, a log, a file or another thread. Every usual way of turning it into
// text gives the marker; only `reveal()` gives the value, so a search for that word finds every use.

/** What stands in place of a secret in any output; read back, it means "unset". */
export const REDACTED = "<redacted>";

export class Secret {
  readonly #value: string;

  constructor(value: string) {
    this.#value = value;
  }

  reveal(): string {
    return this.#value;
  }

  toString(): string {
    return REDACTED;
  }

  toJSON(): string {
    return REDACTED;
  }

  [Symbol.toPrimitive](): string {
    return REDACTED;
  }

  // Node's console and util.inspect look this symbol up; by name, so that this file needs no Node import.
  [Symbol.for("nodejs.util.inspect.custom")](): string {
    return REDACTED;
  }
}
