// Files that a malicious stranger could write, each with what its refusal must say. Those that would run something
// leave the canary file behind when a real unpickler loads them.

import { asm, call, floats, le, pickle, storage, tensor, torchLegacy, torchZip, zip } from "./torch-craft.js";

export interface Malicious {
  readonly name: string;
  readonly file: Uint8Array;
  /** Of the error. */
  readonly code: string;
  /** What its message names. */
  readonly says: RegExp;
}

/** A pickle nested `depth` lists deep. */
function nestedLists(depth: number): Uint8Array {
  return pickle(
    Array.from({ length: depth }, () => asm.emptyList()).flat(),
    Array.from({ length: depth - 1 }, () => asm.append()).flat(),
  );
}

/** Each list holds the one before twice: 2^levels values from a few bytes. */
function laughs(levels: number): Uint8Array {
  const parts = [asm.emptyList(), asm.put(0)];
  for (let level = 1; level <= levels; level++)
    parts.push(
      asm.emptyList(),
      asm.get(level - 1),
      asm.append(),
      asm.get(level - 1),
      asm.append(),
      asm.put(level),
    );
  return pickle(asm.mark(), ...parts, asm.tuple());
}

const payload = (canary: string) => asm.text(`touch ${canary}`);

/** @param canary a path that nothing must create */
export function maliciousFiles(canary: string): Malicious[] {
  const forbidden = "torch.forbidden_call";
  const inZip = (...parts: readonly (readonly number[])[]) =>
    torchZip(pickle(...parts), { 0: floats(1, 2, 3, 4) });
  const numpyDtype = (code: string) => call("numpy", "dtype", asm.text(code), asm.false(), asm.true());
  const big = new Uint8Array(1000);
  return [
    {
      name: "os.system by __reduce__",
      file: inZip(call("os", "system", payload(canary))),
      code: forbidden,
      says: /wants to call os\.system/,
    },
    {
      name: "posix.system in the legacy form",
      file: torchLegacy(pickle(call("posix", "system", payload(canary)))),
      code: forbidden,
      says: /wants to call posix\.system/,
    },
    {
      name: "STACK_GLOBAL with names from the memo",
      file: inZip(
        [...asm.text("os"), ...asm.put(0), ...asm.pop(), ...asm.text("system"), ...asm.put(1), ...asm.pop()],
        [
          ...asm.get(0),
          ...asm.get(1),
          ...asm.stackGlobal(),
          ...payload(canary),
          ...asm.tuple1(),
          ...asm.reduce(),
        ],
      ),
      code: forbidden,
      says: /wants to call os\.system/,
    },
    {
      name: "STACK_GLOBAL with a dotted name",
      file: inZip(asm.text("torch"), asm.text("os.system"), asm.stackGlobal()),
      code: forbidden,
      says: /wants to call torch\.os\.system/,
    },
    {
      name: "a line break smuggled into a name",
      file: inZip(asm.text("collections\nOrderedDict"), asm.text(""), asm.stackGlobal()),
      code: forbidden,
      says: /wants to call "collections\\nOrderedDict\."/,
    },
    {
      name: "builtins.getattr",
      file: inZip(call("builtins", "getattr", asm.global("torch", "Tensor"), asm.text("__class__"))),
      code: forbidden,
      says: /builtins\.getattr/,
    },
    {
      name: "builtins.eval",
      file: inZip(call("builtins", "eval", asm.text("1"))),
      code: forbidden,
      says: /builtins\.eval/,
    },
    {
      name: "__builtin__.exec of Python 2",
      file: inZip(call("__builtin__", "exec", asm.text("1"))),
      code: forbidden,
      says: /__builtin__\.exec/,
    },
    {
      name: "functools.partial",
      file: inZip(call("functools", "partial", asm.global("os", "system"))),
      code: forbidden,
      says: /functools\.partial/,
    },
    {
      name: "torch.load of another file",
      file: inZip(call("torch", "load", asm.text("x.pt"))),
      code: forbidden,
      says: /torch\.load/,
    },
    {
      name: "a name like a property of JavaScript",
      file: inZip(call("torch", "constructor")),
      code: forbidden,
      says: /torch\.constructor/,
    },
    {
      name: "a module like a property of JavaScript",
      file: inZip(call("__proto__", "toString")),
      code: forbidden,
      says: /__proto__\.toString/,
    },
    {
      name: "numpy's reconstruct of another class",
      file: inZip(
        call(
          "numpy.core.multiarray",
          "_reconstruct",
          asm.global("torch", "Tensor"),
          [...asm.int(0), ...asm.tuple1()],
          asm.bytes([0x62]),
        ),
      ),
      code: forbidden,
      says: /_reconstruct to make torch\.Tensor/,
    },
    {
      name: "numpy array of objects",
      file: inZip(numpyDtype("O8")),
      code: forbidden,
      says: /numpy\.dtype with the text "O8"/,
    },
    {
      name: "numpy.load",
      file: inZip(call("numpy", "load", asm.text("x"))),
      code: forbidden,
      says: /numpy\.load/,
    },
    {
      name: "BUILD on a dict",
      file: inZip(asm.emptyDict(), asm.emptyDict(), asm.build()),
      code: "torch.forbidden_instruction",
      says: /set the state of a dict \(BUILD\)/,
    },
    {
      name: "BUILD on a tensor",
      file: inZip(tensor("0", 4, [4], [1]), asm.emptyDict(), asm.build()),
      code: "torch.forbidden_instruction",
      says: /set the state of a tensor \(BUILD\)/,
    },
    {
      name: "BUILD on a class",
      file: inZip(asm.global("torch", "Tensor"), asm.emptyDict(), asm.build()),
      code: "torch.forbidden_instruction",
      says: /set the state of torch\.Tensor/,
    },
    {
      name: "EXT1",
      file: inZip(asm.ext1(7)),
      code: "torch.forbidden_instruction",
      says: /extension code 7 \(EXT1\)/,
    },
    {
      name: "EXT2",
      file: inZip(asm.ext2(700)),
      code: "torch.forbidden_instruction",
      says: /extension code 700 \(EXT2\)/,
    },
    {
      name: "EXT4",
      file: inZip(asm.ext4(70000)),
      code: "torch.forbidden_instruction",
      says: /extension code 70000 \(EXT4\)/,
    },
    {
      name: "INST",
      file: inZip(asm.mark(), payload(canary), asm.instance("os", "system")),
      code: forbidden,
      says: /call os\.system to make an object \(INST\)/,
    },
    {
      name: "OBJ",
      file: inZip(asm.mark(), asm.global("torch", "Tensor"), asm.object()),
      code: forbidden,
      says: /call torch\.Tensor to make an object \(OBJ\)/,
    },
    {
      name: "NEWOBJ",
      file: inZip(asm.global("collections", "OrderedDict"), asm.emptyTuple(), asm.newObject()),
      code: forbidden,
      says: /call collections\.OrderedDict to make an object \(NEWOBJ\)/,
    },
    { name: "NEXT_BUFFER", file: inZip([0x97]), code: "torch.forbidden_instruction", says: /NEXT_BUFFER/ },
    {
      name: "a protocol 0 number",
      file: inZip([0x49, 0x31, 0x0a]),
      code: "torch.forbidden_instruction",
      says: /INT \(a number as text/,
    },
    {
      name: "an unknown instruction",
      file: inZip([0xff]),
      code: "torch.forbidden_instruction",
      says: /0xff, which Python does not know either; PyTorch does not write it/,
    },
    {
      name: "a class that is called",
      file: inZip(asm.global("torch", "Tensor"), asm.emptyTuple(), asm.reduce()),
      code: forbidden,
      says: /call torch\.Tensor/,
    },
    {
      name: "text that is called",
      file: inZip(asm.text("os.system"), asm.emptyTuple(), asm.reduce()),
      code: forbidden,
      says: /call the text "os\.system"/,
    },
    {
      name: "a function as a value",
      file: inZip(asm.global("torch._utils", "_rebuild_tensor_v2")),
      code: forbidden,
      says: /reference to torch\._utils\._rebuild_tensor_v2/,
    },
    {
      name: "a function hidden in a tuple",
      file: inZip(asm.global("torch", "Tensor"), asm.tuple1()),
      code: forbidden,
      says: /reference to torch\.Tensor/,
    },
    {
      name: "a factory of a defaultdict",
      file: inZip(
        asm.global("collections", "defaultdict"),
        asm.global("torch", "Size"),
        asm.tuple1(),
        asm.reduce(),
      ),
      code: forbidden,
      says: /defaultdict wants to call torch\.Size/,
    },
    {
      name: "backward hooks",
      file: inZip(
        call("torch._utils", "_rebuild_parameter", tensor("0", 4, [4], [1]), asm.true(), [
          ...asm.emptyDict(),
          ...asm.int(1),
          ...asm.none(),
          ...asm.setItem(),
        ]),
      ),
      code: forbidden,
      says: /backward hooks/,
    },
    {
      name: "another rebuild function by way of attributes",
      file: inZip(
        call(
          "torch._tensor",
          "_rebuild_from_type_v2",
          asm.global("torch", "device"),
          asm.global("torch", "Tensor"),
          asm.emptyTuple(),
          asm.none(),
        ),
      ),
      code: forbidden,
      says: /call torch\.device to make torch\.Tensor/,
    },
    {
      name: "a quantised tensor",
      file: inZip(call("torch._utils", "_rebuild_qtensor")),
      code: "torch.unsupported",
      says: /_rebuild_qtensor/,
    },
    {
      name: "a text encoding that is code",
      file: inZip(call("_codecs", "encode", asm.text("x"), asm.text("rot13"))),
      code: forbidden,
      says: /_codecs\.encode with the text "rot13"/,
    },
    {
      name: "lists 100,000 deep",
      file: torchZip(nestedLists(100_000)),
      code: "torch.limit",
      says: /more than 100 deep/,
    },
    {
      name: "lists 100,000 deep in the legacy form",
      file: torchLegacy(nestedLists(100_000)),
      code: "torch.limit",
      says: /more than 100 deep/,
    },
    {
      name: "a list that contains itself",
      file: inZip(asm.emptyList(), asm.put(0), asm.get(0), asm.append()),
      code: "torch.limit",
      says: /contains itself/,
    },
    {
      name: "billion laughs through the memo",
      file: torchZip(laughs(60)),
      code: "torch.limit",
      says: /more than 10000000 values/,
    },
    {
      name: "an integer of 2 GB",
      file: inZip(asm.long4(2 ** 31)),
      code: "torch.limit",
      says: /integer of 2147483648 bytes/,
    },
    {
      name: "bytes of 2^62",
      file: inZip(asm.bytes8(2n ** 62n)),
      code: "torch.limit",
      says: /claims 4611686018427387904 bytes/,
    },
    {
      name: "bytes of 2^40",
      file: inZip(asm.bytes8(2n ** 40n)),
      code: "torch.truncated",
      says: /have [0-9]+ of 109951162[0-9]+ bytes/,
    },
    {
      name: "a text of 4 GB in the legacy form",
      file: torchLegacy(Uint8Array.from([...asm.proto(), 0x58, ...le(0xfffffff0, 4)])),
      code: "torch.truncated",
      says: /truncated/,
    },
    {
      name: "a name without end",
      file: inZip([0x63, ...Array.from({ length: 5000 }, () => 0x61)]),
      code: "torch.limit",
      says: /name is longer than 1000 bytes/,
    },
    {
      name: "text that is not UTF-8",
      file: inZip(asm.rawText([0x61, 0xff, 0xfe])),
      code: "torch.encoding",
      says: /"aÿþ" is not valid UTF-8/,
    },
    {
      name: "a name of a function that is not UTF-8",
      file: inZip([0x63, 0xff, 0x0a, 0x61, 0x0a]),
      code: "torch.encoding",
      says: /not valid UTF-8/,
    },
    {
      name: "a record name that is not UTF-8",
      file: zip([
        { name: "archive/data.pkl", bytes: pickle(asm.none()) },
        { name: Uint8Array.of(0x61, 0xff), bytes: big },
      ]),
      code: "torch.encoding",
      says: /name of a record .* not valid UTF-8/,
    },
    {
      name: "a stride past the storage",
      file: inZip(tensor("0", 4, [2, 2], [3, 1])),
      code: "torch.tensor",
      says: /strides \[3, 1\].* reaches element 4 of storage 0, which has 4/,
    },
    {
      name: "an offset past the storage",
      file: inZip(tensor("0", 4, [1], [1], 4)),
      code: "torch.tensor",
      says: /offset 4 reaches element 4/,
    },
    {
      name: "a negative stride",
      file: inZip(tensor("0", 4, [2], [-1], 1)),
      code: "torch.tensor",
      says: /strides of a tensor must be whole numbers from 0/,
    },
    {
      name: "a shape whose size overflows",
      file: inZip(tensor("0", 4, [2 ** 30, 2 ** 30, 2 ** 30], [0, 0, 0])),
      code: "torch.limit",
      says: /more bytes than can be counted/,
    },
    {
      name: "one element expanded to 16 TB",
      file: inZip(tensor("0", 4, [2 ** 21, 2 ** 21], [0, 0])),
      code: "torch.limit",
      says: /written out, the tensors .* take 17592186044416 bytes/,
    },
    {
      name: "more strides than dimensions",
      file: inZip(tensor("0", 4, [2], [1, 1])),
      code: "torch.tensor",
      says: /not as many strides/,
    },
    {
      name: "a storage with fewer bytes than it says",
      file: torchZip(pickle(tensor("0", 8, [8], [1])), { 0: floats(1, 2, 3, 4) }),
      code: "torch.storage",
      says: /storage "0" should have 32 bytes, its record has 16/,
    },
    {
      name: "a storage that is not there",
      file: torchZip(pickle(tensor("9", 4, [4], [1])), {}),
      code: "torch.missing_record",
      says: /no data of storage "9"/,
    },
    {
      name: "a storage by a path",
      file: torchZip(pickle(tensor("../../../etc/passwd", 4, [4], [1])), {}),
      code: "torch.missing_record",
      says: /etc\/passwd/,
    },
    {
      name: "one storage as two types",
      file: inZip(asm.mark(), storage("0", 4), storage("0", 2, "DoubleStorage"), asm.tuple()),
      code: "torch.storage",
      says: /storage "0" is described twice/,
    },
    {
      name: "a persistent id that is text",
      file: inZip(asm.text("0"), asm.persistentId()),
      code: "torch.storage",
      says: /persistent id is the text "0"/,
    },
    {
      name: "a persistent id of another kind",
      file: inZip(asm.text("module"), asm.tuple1(), asm.persistentId()),
      code: "torch.storage",
      says: /persistent id is of the text "module"/,
    },
    {
      name: "a persistent id with another class",
      file: inZip(
        asm.mark(),
        asm.text("storage"),
        asm.global("torch", "Tensor"),
        asm.text("0"),
        asm.text("cpu"),
        asm.int(4),
        asm.tuple(),
        asm.persistentId(),
      ),
      code: "torch.storage",
      says: /class torch\.Tensor, which is no class of storages/,
    },
    {
      name: "a persistent id as a line",
      file: inZip([0x50, ...Buffer.from("file:///etc/passwd\n")]),
      code: "torch.storage",
      says: /file:\/\/\/etc\/passwd/,
    },
    {
      name: "a key twice in a dict",
      file: inZip(
        asm.emptyDict(),
        asm.mark(),
        asm.text("w"),
        asm.int(1),
        asm.text("w"),
        asm.int(2),
        asm.setItems(),
      ),
      code: "torch.pickle",
      says: /key "w" twice/,
    },
    {
      name: "two tensors of one name",
      file: inZip(
        asm.emptyDict(),
        asm.mark(),
        asm.int(0),
        tensor("0", 4, [4], [1]),
        asm.text("0"),
        tensor("0", 4, [4], [1]),
        asm.setItems(),
      ),
      code: "torch.duplicate_name",
      says: /"0"/,
    },
    { name: "a stack that runs empty", file: inZip(asm.reduce()), code: "torch.pickle", says: /empty stack/ },
    {
      name: "a mark that is not there",
      file: inZip(asm.tuple()),
      code: "torch.pickle",
      says: /needs a mark/,
    },
    {
      name: "a memo that is not set",
      file: inZip(asm.get(200)),
      code: "torch.pickle",
      says: /value 200 of the memo/,
    },
    {
      name: "values appended to a tuple",
      file: inZip(asm.emptyTuple(), asm.int(1), asm.append()),
      code: "torch.pickle",
      says: /no list/,
    },
    {
      name: "a second pickle behind the first",
      file: torchZip(
        new Uint8Array([...pickle(asm.none()), ...pickle(call("os", "system", payload(canary)))]),
      ),
      code: "torch.pickle",
      says: /bytes follow the end of the pickle/,
    },
    {
      name: "two records of one name",
      file: torchZip(pickle(asm.none()), {}, [
        { name: "archive/data.pkl", bytes: pickle(call("os", "system", payload(canary))) },
      ]),
      code: "torch.duplicate_record",
      says: /two records named "archive\/data\.pkl"/,
    },
    {
      name: "two pickles in two folders",
      file: torchZip(pickle(asm.none()), {}, [{ name: "other/data.pkl", bytes: pickle(asm.none()) }]),
      code: "torch.duplicate_record",
      says: /two pickles/,
    },
    {
      name: "a zip bomb by compression",
      file: zip([{ name: "archive/data.pkl", bytes: big, method: 8, claimedBytes: 2 ** 31 }]),
      code: "torch.compressed",
      says: /"archive\/data\.pkl" is compressed/,
    },
    {
      name: "an encrypted record",
      file: zip([{ name: "archive/data.pkl", bytes: big, flags: 1 }]),
      code: "torch.compressed",
      says: /is encrypted/,
    },
    {
      name: "a zip bomb by records that overlap",
      file: zip([
        { name: "archive/data.pkl", bytes: pickle(asm.none()) },
        { name: "archive/data/0", bytes: big },
        { name: "archive/data/1", bytes: new Uint8Array(0), claimedBytes: 900, headerOffset: 80 },
      ]),
      code: "torch.duplicate_record",
      says: /shares bytes with/,
    },
    {
      name: "a record that claims 4 GB",
      file: zip([{ name: "archive/data.pkl", bytes: pickle(asm.none()), claimedBytes: 0xfffffff0 }]),
      code: "torch.duplicate_record",
      says: /4294967280 bytes shares bytes with the directory/,
    },
    {
      name: "big-endian by its record",
      file: zip([
        { name: "archive/data.pkl", bytes: pickle(asm.none()) },
        { name: "archive/byteorder", bytes: Buffer.from("big") },
      ]),
      code: "torch.byte_order",
      says: /byte order "big"/,
    },
    {
      name: "big-endian in the legacy form",
      file: torchLegacy(pickle(asm.none()), [], false),
      code: "torch.byte_order",
      says: /little-endian/,
    },
    {
      name: "a TorchScript program",
      file: torchZip(pickle(asm.none()), {}, [{ name: "archive/code/x.py", bytes: big }]),
      code: "torch.unsupported",
      says: /TorchScript program/,
    },
    {
      name: "a container of a newer version",
      file: zip([
        { name: "archive/data.pkl", bytes: pickle(asm.none()) },
        { name: "archive/version", bytes: Buffer.from("99") },
      ]),
      code: "torch.unsupported",
      says: /version "99"/,
    },
    {
      name: "a zip container of something else",
      file: zip([{ name: "readme.txt", bytes: big }]),
      code: "torch.not_torch",
      says: /without data\.pkl/,
    },
    {
      name: "a pickle alone",
      file: pickle(call("os", "system", payload(canary))),
      code: forbidden,
      says: /os\.system/,
    },
    {
      name: "a text",
      file: new Uint8Array(Buffer.from("hello world")),
      code: "torch.not_torch",
      says: /neither a zip container nor a pickle/,
    },
    {
      name: "a storage twice in the legacy list",
      file: torchLegacy(pickle(legacyTensor("0")), [
        { key: "0", count: 4, bytes: floats(1, 2, 3, 4) },
        { key: "0", count: 4, bytes: floats(1, 2, 3, 4) },
      ]),
      code: "torch.storage",
      says: /twice or in vain/,
    },
    {
      name: "another number of elements in the legacy data",
      file: torchLegacy(pickle(legacyTensor("0")), [{ key: "0", count: 400, bytes: floats(1, 2, 3, 4) }]),
      code: "torch.storage",
      says: /should have 4 elements, its data has 400/,
    },
    {
      name: "a storage missing in the legacy list",
      file: torchLegacy(pickle(legacyTensor("0"))),
      code: "torch.missing_record",
      says: /no data of storage "0"/,
    },
    {
      name: "legacy data that ends early",
      file: torchLegacy(pickle(legacyTensor("0")), [{ key: "0", count: 4, bytes: floats(1, 2) }]),
      code: "torch.truncated",
      says: /truncated: have/,
    },
  ];
}

/** Four floats as the legacy form describes them. */
function legacyTensor(key: string): number[] {
  const id = [
    ...asm.mark(),
    ...asm.text("storage"),
    ...asm.global("torch", "FloatStorage"),
    ...asm.text(key),
    ...asm.text("cpu"),
  ];
  const sizes = (value: number) => [...asm.int(value), ...asm.tuple1()];
  return call(
    "torch._utils",
    "_rebuild_tensor_v2",
    [...id, ...asm.int(4), ...asm.none(), ...asm.tuple(), ...asm.persistentId()],
    asm.int(0),
    sizes(4),
    sizes(1),
    asm.false(),
    asm.emptyDict(),
  );
}
