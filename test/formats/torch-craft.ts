// Hand-made pickles and containers for tests of the reader of PyTorch files: whatever a stranger could write, too.

/** Instructions with their arguments, as bytes. Values as `pickletools` names them. */
export const asm = {
  proto: (version = 2) => [0x80, version],
  stop: () => [0x2e],
  mark: () => [0x28],
  none: () => [0x4e],
  emptyDict: () => [0x7d],
  emptyList: () => [0x5d],
  emptyTuple: () => [0x29],
  tuple: () => [0x74],
  tuple1: () => [0x85],
  tuple2: () => [0x86],
  tuple3: () => [0x87],
  append: () => [0x61],
  appends: () => [0x65],
  setItem: () => [0x73],
  setItems: () => [0x75],
  reduce: () => [0x52],
  build: () => [0x62],
  newObject: () => [0x81],
  object: () => [0x6f],
  persistentId: () => [0x51],
  stackGlobal: () => [0x93],
  memoize: () => [0x94],
  put: (index: number) => [0x71, index],
  get: (index: number) => [0x68, index],
  dup: () => [0x32],
  pop: () => [0x30],
  true: () => [0x88],
  false: () => [0x89],
  int: (value: number) => [0x4a, ...le(value, 4)],
  text: (value: string) => {
    const bytes = Buffer.from(value, "utf8");
    return [0x58, ...le(bytes.byteLength, 4), ...bytes];
  },
  rawText: (bytes: readonly number[]) => [0x58, ...le(bytes.length, 4), ...bytes],
  bytes: (bytes: readonly number[]) => [0x42, ...le(bytes.length, 4), ...bytes],
  global: (module: string, name: string) => [0x63, ...Buffer.from(`${module}\n${name}\n`, "utf8")],
  instance: (module: string, name: string) => [0x69, ...Buffer.from(`${module}\n${name}\n`, "utf8")],
  ext1: (code: number) => [0x82, code],
  ext2: (code: number) => [0x83, ...le(code, 2)],
  ext4: (code: number) => [0x84, ...le(code, 4)],
  long4: (claimed: number) => [0x8b, ...le(claimed, 4)],
  bytes8: (claimed: bigint) => [0x8e, ...le64(claimed)],
};

export function le(value: number, width: number): number[] {
  return Array.from({ length: width }, (_, i) => Math.floor(value / 2 ** (8 * i)) & 0xff);
}

export function le64(value: bigint): number[] {
  return Array.from({ length: 8 }, (_, i) => Number((value >> BigInt(8 * i)) & 0xffn));
}

/** The parts between PROTO and STOP. */
export function pickle(...parts: readonly (readonly number[])[]): Uint8Array {
  return Uint8Array.from([...asm.proto(), ...parts.flat(), ...asm.stop()]);
}

/** Calls `module.name` with the arguments that `args` pushes (a tuple). */
export function call(module: string, name: string, ...args: readonly (readonly number[])[]): number[] {
  return [...asm.global(module, name), ...asm.mark(), ...args.flat(), ...asm.tuple(), ...asm.reduce()];
}

/** A float storage of `count` elements under `key`. */
export function storage(key: string, count: number, type = "FloatStorage"): number[] {
  return [
    ...asm.mark(),
    ...asm.text("storage"),
    ...asm.global("torch", type),
    ...asm.text(key),
    ...asm.text("cpu"),
    ...asm.int(count),
    ...asm.tuple(),
    ...asm.persistentId(),
  ];
}

/** A tensor over a float storage. */
export function tensor(key: string, count: number, shape: number[], strides: number[], offset = 0): number[] {
  const sizes = (values: number[]) => [...asm.mark(), ...values.flatMap((v) => asm.int(v)), ...asm.tuple()];
  return call(
    "torch._utils",
    "_rebuild_tensor_v2",
    storage(key, count),
    asm.int(offset),
    sizes(shape),
    sizes(strides),
    asm.false(),
    call("collections", "OrderedDict"),
  );
}

export interface ZipEntry {
  readonly name: string | Uint8Array;
  readonly bytes: Uint8Array;
  readonly method?: number;
  readonly flags?: number;
  /** What the directory says instead of the truth. */
  readonly claimedBytes?: number;
  readonly headerOffset?: number;
  /** Put sizes and offset into a zip64 part. */
  readonly zip64?: boolean;
}

/** A zip container of stored records. */
export function zip(entries: readonly ZipEntry[], options: { zip64?: boolean } = {}): Uint8Array {
  const parts: Uint8Array[] = [];
  const directory: Uint8Array[] = [];
  let offset = 0;
  for (const entry of entries) {
    const name = typeof entry.name === "string" ? Buffer.from(entry.name) : entry.name;
    const { bytes, method = 0, flags = 0 } = entry;
    const size = entry.claimedBytes ?? bytes.byteLength;
    const at = entry.headerOffset ?? offset;
    const sizes = entry.zip64
      ? [...le(0xffffffff, 4), ...le(0xffffffff, 4)]
      : [...le(size, 4), ...le(size, 4)];
    const extra = entry.zip64
      ? [...le(1, 2), ...le(24, 2), ...le64(BigInt(size)), ...le64(BigInt(size)), ...le64(BigInt(at))]
      : [];
    const common = [
      ...le(20, 2),
      ...le(flags, 2),
      ...le(method, 2),
      ...le(0, 8),
      ...sizes,
      ...le(name.byteLength, 2),
    ];
    const local = Uint8Array.from([...le(0x04034b50, 4), ...common, 0, 0]);
    const place = le(entry.zip64 ? 0xffffffff : at, 4);
    const central = [
      ...le(0x02014b50, 4),
      ...le(20, 2),
      ...common,
      ...le(extra.length, 2),
      ...le(0, 10),
      ...place,
    ];
    directory.push(Uint8Array.from(central), name, Uint8Array.from(extra));
    parts.push(local, name, bytes);
    offset += local.byteLength + name.byteLength + bytes.byteLength;
  }
  const central = Buffer.concat(directory);
  const count = entries.length;
  const end64 = [
    ...[...le(0x06064b50, 4), ...le64(44n), ...le(45, 2), ...le(45, 2), ...le(0, 8)],
    ...[
      ...le64(BigInt(count)),
      ...le64(BigInt(count)),
      ...le64(BigInt(central.byteLength)),
      ...le64(BigInt(offset)),
    ],
    ...[...le(0x07064b50, 4), ...le(0, 4), ...le64(BigInt(offset + central.byteLength)), ...le(1, 4)],
  ];
  const end = options.zip64
    ? [
        ...end64,
        ...le(0x06054b50, 4),
        ...le(0, 4),
        ...le(0xffff, 4),
        ...le(0xffffffff, 4),
        ...le(0xffffffff, 4),
        0,
        0,
      ]
    : [
        ...le(0x06054b50, 4),
        ...le(0, 4),
        ...le(count, 2),
        ...le(count, 2),
        ...le(central.byteLength, 4),
        ...le(offset, 4),
        0,
        0,
      ];
  return new Uint8Array(Buffer.concat([...parts, central, Uint8Array.from(end)]));
}

/** A PyTorch file with this pickle and these storages. */
export function torchZip(
  pickleBytes: Uint8Array,
  storages: Readonly<Record<string, Uint8Array>> = {},
  more: readonly ZipEntry[] = [],
): Uint8Array {
  return zip([
    { name: "archive/data.pkl", bytes: pickleBytes },
    { name: "archive/byteorder", bytes: Buffer.from("little") },
    ...Object.entries(storages).map(([key, bytes]) => ({ name: `archive/data/${key}`, bytes })),
    { name: "archive/version", bytes: Buffer.from("3\n") },
    ...more,
  ]);
}

const MAGIC = [0x8a, 10, 0x6c, 0xfc, 0x9c, 0x46, 0xf9, 0x20, 0x6a, 0xa8, 0x50, 0x19];

/** The form before PyTorch 1.6. */
export function torchLegacy(
  value: Uint8Array,
  storages: readonly { key: string; count: number; bytes: Uint8Array }[] = [],
  littleEndian = true,
): Uint8Array {
  const keys = pickle(
    asm.emptyList(),
    asm.mark(),
    storages.flatMap(({ key }) => asm.text(key)),
    asm.appends(),
  );
  const facts = pickle(
    asm.emptyDict(),
    asm.text("little_endian"),
    littleEndian ? asm.true() : asm.false(),
    asm.setItem(),
  );
  return new Uint8Array(
    Buffer.concat([
      pickle(MAGIC),
      pickle(asm.int(1001)),
      facts,
      value,
      keys,
      ...storages.flatMap(({ count, bytes }) => [Uint8Array.from(le64(BigInt(count))), bytes]),
    ]),
  );
}

export function floats(...values: number[]): Uint8Array {
  return new Uint8Array(Float32Array.from(values).buffer);
}
