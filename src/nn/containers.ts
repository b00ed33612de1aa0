// Modules that only hold other modules: a list, a dictionary, a chain. Their items are named by index or key.

import type { Tensor } from "../tensor/index.js";
import { ModelError } from "../util/errors.js";
import { Module } from "./module.js";

/** Modules in order, named "0", "1", … */
export class ModuleList<T extends Module> extends Module implements Iterable<T> {
  readonly #items: readonly T[];

  constructor(items: Iterable<T>) {
    super();
    this.#items = [...items];
  }

  get length(): number {
    return this.#items.length;
  }

  /** Item `index`; negative counts from the end. Undefined outside. */
  at(index: number): T | undefined {
    return this.#items.at(index);
  }

  [Symbol.iterator](): Iterator<T> {
    return this.#items[Symbol.iterator]();
  }

  protected override *fields(): Iterable<readonly [string, unknown]> {
    for (const [index, item] of this.#items.entries()) yield [String(index), item];
  }
}

/** Modules by key. A key must not be empty nor contain a dot, since dots separate names. */
export class ModuleDict<T extends Module> extends Module implements Iterable<[string, T]> {
  readonly #items: ReadonlyMap<string, T>;

  constructor(items: Readonly<Record<string, T>>) {
    super();
    this.#items = new Map(Object.entries(items));
    for (const key of this.#items.keys())
      if (key === "" || key.includes("."))
        throw new ModelError(
          `module key ${JSON.stringify(key)} must not be empty nor contain a dot: rename it`,
          {
            code: "model.module_key",
            details: { key },
          },
        );
  }

  get(key: string): T | undefined {
    return this.#items.get(key);
  }

  [Symbol.iterator](): Iterator<[string, T]> {
    return this.#items[Symbol.iterator]();
  }

  protected override fields(): Iterable<readonly [string, unknown]> {
    return this.#items;
  }
}

/** A step of a chain: a module with `forward(x)`, or a plain function such as `relu`. */
export type ChainStep = (Module & { forward(x: Tensor): Tensor }) | ((x: Tensor) => Tensor);

/** Applies its steps one after another. Functions take up an index like modules do: "0", "2", … */
export class Sequential extends Module {
  readonly #steps: readonly ChainStep[];

  constructor(...steps: readonly ChainStep[]) {
    super();
    this.#steps = steps;
  }

  forward(x: Tensor): Tensor {
    return this.#steps.reduce(
      (value, step) => (typeof step === "function" ? step(value) : step.forward(value)),
      x,
    );
  }

  protected override *fields(): Iterable<readonly [string, unknown]> {
    for (const [index, step] of this.#steps.entries()) yield [String(index), step];
  }
}
