// Follows a pickle far enough to get at plain data and tensors. It runs nothing: names are looked up in a fixed
// table of our own constructors, and every other name, and every instruction that could make an object of a
// class, is refused by name. Time and memory are bounded by the limits.

import { quote, TorchFileError, type TorchProblem } from "../errors.js";
import type { TorchLimits } from "../limits.js";
import type { TorchStorage, TorchValue } from "../values.js";
import { buildObject } from "./constructors.js";
import { PickleCursor } from "./cursor.js";
import { type CallContext, describeItem, type Item, isStandIn, PickleFunction } from "./items.js";
import { lookUpName } from "./names.js";
import { describeRefused, OP } from "./opcodes.js";
import { PickleStack } from "./stack.js";

export interface PickleOptions {
  readonly file: string | undefined;
  /** Where the bytes stand in the file, for errors. */
  readonly baseOffset: number;
  readonly limits: TorchLimits;
  /** Turns a persistent id into the storage that it describes; absent: the pickle must not have any. */
  readonly resolveStorage?: (id: readonly Item[], fail: CallContext["fail"]) => TorchStorage;
}

/**
 * The value of the pickle at the start of `bytes`, and how many bytes it took. Lists and maps may be shared and,
 * before the tree is checked, even contain themselves.
 * @throws TorchFileError; `truncated` when the pickle goes on beyond `bytes`.
 */
export function runPickle(bytes: Uint8Array, options: PickleOptions): { value: TorchValue; length: number } {
  const machine = new PickleMachine(bytes, options);
  return { value: machine.run(), length: machine.length };
}

type Instruction = (m: PickleMachine, cursor: PickleCursor) => unknown;

class PickleMachine implements CallContext {
  /** The instruction set. */
  static readonly #instructions: ReadonlyMap<number, Instruction> = new Map<number, Instruction>([
    [OP.PROTO, (m, cursor) => m.#checkProtocol(cursor.uint8())],
    // Frames only help readers of streams; what matters is the end of the file.
    [OP.FRAME, (_, cursor) => cursor.length64()],
    [OP.NONE, (m) => m.#push(null)],
    [OP.NEWTRUE, (m) => m.#push(true)],
    [OP.NEWFALSE, (m) => m.#push(false)],
    [OP.BININT, (m, cursor) => m.#push(cursor.int32())],
    [OP.BININT1, (m, cursor) => m.#push(cursor.uint8())],
    [OP.BININT2, (m, cursor) => m.#push(cursor.uint16())],
    [OP.LONG1, (m, cursor) => m.#pushInteger(cursor.uint8())],
    [OP.LONG4, (m, cursor) => m.#pushInteger(cursor.uint32())],
    [OP.BINFLOAT, (m, cursor) => m.#push(cursor.float64())],
    [OP.SHORT_BINUNICODE, (m, cursor) => m.#make(cursor.text(cursor.uint8()))],
    [OP.SHORT_BINSTRING, (m, cursor) => m.#make(cursor.text(cursor.uint8()))],
    [OP.BINUNICODE, (m, cursor) => m.#make(cursor.text(cursor.uint32()))],
    [OP.BINSTRING, (m, cursor) => m.#make(cursor.text(cursor.uint32()))],
    [OP.BINUNICODE8, (m, cursor) => m.#make(cursor.text(cursor.length64()))],
    [OP.SHORT_BINBYTES, (m, cursor) => m.#make(cursor.take(cursor.uint8()))],
    [OP.BINBYTES, (m, cursor) => m.#make(cursor.take(cursor.uint32()))],
    [OP.BINBYTES8, (m, cursor) => m.#make(cursor.take(cursor.length64()))],
    [OP.BYTEARRAY8, (m, cursor) => m.#make(cursor.take(cursor.length64()))],
    [OP.MARK, (m) => m.#stack.mark()],
    [OP.POP, (m) => m.#stack.popItemOrMark()],
    [OP.POP_MARK, (m) => m.#stack.popToMark()],
    [OP.DUP, (m) => m.#push(m.#stack.top)],
    [OP.EMPTY_TUPLE, (m) => m.#pushTuple([])],
    [OP.TUPLE1, (m) => m.#pushTuple(m.#popMany(1))],
    [OP.TUPLE2, (m) => m.#pushTuple(m.#popMany(2))],
    [OP.TUPLE3, (m) => m.#pushTuple(m.#popMany(3))],
    [OP.TUPLE, (m) => m.#pushTuple(m.#stack.popToMark())],
    [OP.EMPTY_LIST, (m) => m.#make([])],
    [OP.APPEND, (m) => m.#append([m.#stack.pop()])],
    [OP.APPENDS, (m) => m.#append(m.#stack.popToMark())],
    [OP.EMPTY_DICT, (m) => m.#make(new Map())],
    [OP.SETITEM, (m) => m.#setItems(m.#popMany(2))],
    [OP.SETITEMS, (m) => m.#setItems(m.#stack.popToMark())],
    [OP.EMPTY_SET, (m) => m.#make(new Set<TorchValue>())],
    [OP.ADDITEMS, (m) => m.#addItems(m.#stack.popToMark())],
    [OP.FROZENSET, (m) => m.#make(new Set(m.#stack.popToMark().map((item) => m.plain(item))))],
    [OP.BINPUT, (m, cursor) => m.#remember(cursor.uint8())],
    [OP.LONG_BINPUT, (m, cursor) => m.#remember(cursor.uint32())],
    [OP.MEMOIZE, (m) => m.#remember(m.#memo.size)],
    [OP.BINGET, (m, cursor) => m.#recall(cursor.uint8())],
    [OP.LONG_BINGET, (m, cursor) => m.#recall(cursor.uint32())],
    [OP.GLOBAL, (m, cursor) => m.#pushName(cursor.line(), cursor.line())],
    [OP.STACK_GLOBAL, (m) => m.#pushStackName()],
    [OP.REDUCE, (m) => m.#call()],
    [OP.BUILD, (m) => m.#build()],
    [OP.BINPERSID, (m) => m.#pushStorage()],
    [OP.INST, (m, cursor) => m.#refuseObject("INST", `${cursor.line()}.${cursor.line()}`)],
    [OP.OBJ, (m) => m.#refuseObject("OBJ", describeItem(m.#stack.popToMark()[0]))],
    [OP.NEWOBJ, (m) => m.#refuseObject("NEWOBJ", describeItem(m.#popMany(2)[0]!))],
    [OP.NEWOBJ_EX, (m) => m.#refuseObject("NEWOBJ_EX", describeItem(m.#popMany(3)[0]!))],
    [OP.EXT1, (m, cursor) => m.#refuseExtension("EXT1", cursor.uint8())],
    [OP.EXT2, (m, cursor) => m.#refuseExtension("EXT2", cursor.uint16())],
    [OP.EXT4, (m, cursor) => m.#refuseExtension("EXT4", cursor.int32())],
    [
      OP.PERSID,
      (m, cursor) =>
        m.fail("storage", `the file refers to an object outside of it as ${quote(cursor.line())}`),
    ],
  ]);

  readonly #cursor: PickleCursor;
  readonly #stack: PickleStack;
  readonly #memo = new Map<number, Item>();
  readonly #options: PickleOptions;
  readonly #tuples = new WeakSet<object>();
  /** Ordered dicts may carry attributes, which are dropped; plain ones may not. */
  readonly #ordered = new WeakSet<object>();
  #instructionOffset: number;
  #objects = 0;

  constructor(bytes: Uint8Array, options: PickleOptions) {
    this.#options = options;
    this.#cursor = new PickleCursor(bytes, options.baseOffset, options.file);
    this.#instructionOffset = options.baseOffset;
    this.#stack = new PickleStack((message) => this.fail("pickle", message));
  }

  get length(): number {
    return this.#cursor.position;
  }

  run(): TorchValue {
    const { maxInstructions } = this.#options.limits;
    for (let count = 1; ; count++) {
      if (count > maxInstructions)
        this.fail("limit", `the pickle has more than ${maxInstructions} instructions`);
      this.#instructionOffset = this.#cursor.offset;
      const code = this.#cursor.uint8();
      if (code === OP.STOP) return this.#finish();
      this.#execute(code);
    }
  }

  fail(problem: TorchProblem, message: string, details?: Readonly<Record<string, unknown>>): never {
    throw new TorchFileError(problem, message, {
      file: this.#options.file,
      offset: this.#instructionOffset,
      ...(details === undefined ? {} : { details }),
    });
  }

  ordered(): Map<TorchValue, TorchValue> {
    const map = new Map<TorchValue, TorchValue>();
    this.#ordered.add(map);
    return map;
  }

  tuple(items: readonly TorchValue[]): readonly TorchValue[] {
    this.#tuples.add(items);
    return items;
  }

  isTuple(value: unknown): value is readonly Item[] {
    return Array.isArray(value) && this.#tuples.has(value);
  }

  isOrdered(value: unknown): boolean {
    return value instanceof Map && this.#ordered.has(value);
  }

  /** Names of functions and classes are for calls alone: nothing else may hold one. */
  plain(item: Item): TorchValue {
    if (!isStandIn(item)) return item;
    return this.fail("forbidden_call", `this file holds a reference to ${item.name} as a value`, {
      name: item.name,
    });
  }

  setItem(map: Map<TorchValue, TorchValue>, key: Item, value: Item): void {
    const plainKey = this.plain(key);
    if (
      Array.isArray(plainKey)
        ? !this.#tuples.has(plainKey)
        : plainKey instanceof Map || plainKey instanceof Set
    )
      this.fail("pickle", "a dict has a key that Python does not allow (a list, dict or set)");
    if (map.has(plainKey))
      this.fail(
        "pickle",
        `a dict has the key ${shown(plainKey)} twice, so one of two values would be hidden`,
      );
    map.set(plainKey, this.plain(value));
  }

  #finish(): TorchValue {
    const value = this.plain(this.#stack.pop());
    if (this.#stack.size > 0) this.fail("pickle", "values are left over at the end of the pickle");
    return value;
  }

  #push(item: Item): void {
    this.#stack.push(item);
  }

  /** Pushes something that takes memory of its own. */
  #make(item: Item): void {
    const { maxObjects } = this.#options.limits;
    if (++this.#objects > maxObjects) this.fail("limit", `the pickle makes more than ${maxObjects} objects`);
    this.#stack.push(item);
  }

  #execute(code: number): void {
    const instruction = PickleMachine.#instructions.get(code);
    if (instruction === undefined)
      this.fail(
        "forbidden_instruction",
        `the pickle has the instruction ${describeRefused(code)}; PyTorch does not write it`,
        { instruction: code },
      );
    instruction(this, this.#cursor);
  }

  #checkProtocol(version: number): void {
    if (version >= 2 && version <= 5) return;
    this.fail("pickle", `pickle protocol ${version}; PyTorch writes 2 to 5`);
  }

  #pushInteger(length: number): void {
    const { maxIntegerBytes } = this.#options.limits;
    if (length > maxIntegerBytes)
      this.fail("limit", `an integer of ${length} bytes; at most ${maxIntegerBytes} are read`);
    this.#push(this.#cursor.integer(length));
  }

  #popMany(count: number): Item[] {
    const items: Item[] = [];
    for (let i = 0; i < count; i++) items.unshift(this.#stack.pop());
    return items;
  }

  #pushTuple(items: Item[]): void {
    // Names may stand in the arguments of a call; whether they may stay is checked at the end.
    this.#make(this.tuple(items as TorchValue[]));
  }

  #append(items: readonly Item[]): void {
    const list = this.#stack.top;
    if (!Array.isArray(list) || this.#tuples.has(list))
      this.fail("pickle", "values are appended to what is no list");
    for (const item of items) (list as TorchValue[]).push(this.plain(item));
  }

  #setItems(items: readonly Item[]): void {
    const map = this.#stack.top;
    if (!(map instanceof Map))
      this.fail("pickle", `items are set on what is no dict but ${describeItem(map)}`);
    if (items.length % 2 === 1) this.fail("pickle", "a key of a dict has no value");
    for (let i = 0; i < items.length; i += 2) this.setItem(map, items[i]!, items[i + 1]!);
  }

  #addItems(items: readonly Item[]): void {
    const set = this.#stack.top;
    if (!(set instanceof Set)) this.fail("pickle", "items are added to what is no set");
    for (const item of items) set.add(this.plain(item));
  }

  #remember(index: number): void {
    const { maxObjects } = this.#options.limits;
    if (this.#memo.size >= maxObjects)
      this.fail("limit", `the memo of the pickle has more than ${maxObjects} values`);
    this.#memo.set(index, this.#stack.top);
  }

  #recall(index: number): void {
    const item = this.#memo.get(index);
    if (item === undefined) this.fail("pickle", `value ${index} of the memo is used before it is set`);
    this.#push(item);
  }

  #pushName(module: string, name: string): void {
    const known = lookUpName(module, name);
    if (known === undefined) {
      const target = `${module}.${name}`;
      this.fail(
        "forbidden_call",
        `this file wants to call ${printable(target)}, which is not among the few harmless names that files of ` +
          "tensors need. Nothing was run; do not load the file with a tool that runs it unless you trust its origin",
        { name: target },
      );
    }
    this.#push(known);
  }

  #pushStackName(): void {
    const [module, name] = this.#popMany(2);
    if (typeof module !== "string" || typeof name !== "string")
      this.fail("pickle", "the name of a function or class is not text");
    this.#pushName(module, name);
  }

  #call(): void {
    const [target, args] = this.#popMany(2);
    if (!(target instanceof PickleFunction))
      this.fail(
        "forbidden_call",
        `this file wants to call ${describeItem(target!)}, which only names a type here`,
        {
          name: describeItem(target!),
        },
      );
    if (!this.isTuple(args)) this.fail("pickle", `the arguments of ${target.name} are no tuple`);
    this.#make(target.call(args as readonly Item[], this));
  }

  #build(): void {
    const state = this.#stack.pop();
    const target = this.#stack.pop();
    if (!buildObject(target, state, this))
      this.fail(
        "forbidden_instruction",
        `this file wants to set the state of ${describeItem(target)} (BUILD)`,
        {
          name: describeItem(target),
        },
      );
    this.#push(target);
  }

  #pushStorage(): void {
    const id = this.#stack.pop();
    const { resolveStorage } = this.#options;
    if (resolveStorage === undefined) this.fail("storage", "a reference to a storage where none belongs");
    if (!this.isTuple(id))
      this.fail(
        "storage",
        `the persistent id is ${describeItem(id)}, but must be a tuple that describes a storage`,
      );
    this.#make(resolveStorage(id as readonly Item[], this.fail.bind(this)));
  }

  #refuseObject(instruction: string, name: string): never {
    this.fail(
      "forbidden_call",
      `this file wants to call ${printable(name)} to make an object (${instruction}); nothing was run`,
      { name },
    );
  }

  #refuseExtension(instruction: string, code: number): never {
    this.fail(
      "forbidden_instruction",
      `this file wants to call whatever a program has registered under extension code ${code} (${instruction})`,
      { code },
    );
  }
}

function printable(name: string): string {
  return /^[\w.<>-]{1,200}$/.test(name) ? name : quote(name);
}

function shown(key: TorchValue): string {
  return typeof key === "string" ? quote(key) : Array.isArray(key) ? "(a tuple)" : String(key);
}
