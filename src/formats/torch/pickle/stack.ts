// The stack of the pickle machine with its marks. Taking more than lies above the last mark is an error of the
// pickle, so that no instruction reaches into what a construct around it is collecting.

import type { Item } from "./items.js";

export class PickleStack {
  readonly #items: Item[] = [];
  readonly #marks: number[] = [];

  constructor(private readonly fail: (message: string) => never) {}

  get size(): number {
    return this.#items.length;
  }

  push(item: Item): void {
    this.#items.push(item);
  }

  pop(): Item {
    if (this.#items.length <= this.#floor) this.fail("an instruction takes a value from an empty stack");
    return this.#items.pop() as Item;
  }

  /** The uppermost value, which stays. */
  get top(): Item {
    if (this.#items.length <= this.#floor) this.fail("an instruction looks at an empty stack");
    return this.#items.at(-1) as Item;
  }

  mark(): void {
    this.#marks.push(this.#items.length);
  }

  /** Everything above the last mark; the mark goes too. */
  popToMark(): Item[] {
    const start = this.#marks.pop();
    if (start === undefined) this.fail("an instruction needs a mark and there is none");
    return this.#items.splice(start);
  }

  /** POP on a mark takes the mark away. */
  popItemOrMark(): void {
    if (this.#marks.length > 0 && this.#items.length === this.#floor) this.#marks.pop();
    else this.pop();
  }

  get #floor(): number {
    return this.#marks.at(-1) ?? 0;
  }
}
