// Deterministic mutants of safetensors files for fuzzing: blind ones (bits, cuts, insertions), edits of the length
// field, edits of the header that know its structure, and flips in the data.

/** Numbers in [0, 1); the same seed gives the same sequence everywhere (mulberry32). */
export function makeRandom(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), state | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

export interface Mutant {
  bytes: Uint8Array;
  /** For a flip in the data: what was flipped. */
  flip?: { position: number; mask: number };
}

export type Random = () => number;
type Mutator = (seed: Uint8Array, random: Random) => Mutant;

export const below = (random: Random, limit: number) => Math.floor(random() * limit);
export const pick = <T>(random: Random, items: readonly T[]) => items[below(random, items.length)]!;

function headerLength(file: Uint8Array): number {
  return Number(new DataView(file.buffer, file.byteOffset).getBigUint64(0, true));
}

function withLengthField(file: Uint8Array, length: bigint): Uint8Array {
  const copy = file.slice();
  new DataView(copy.buffer).setBigUint64(0, BigInt.asUintN(64, length), true);
  return copy;
}

export function splice(file: Uint8Array, start: number, removed: number, inserted: Uint8Array): Uint8Array {
  return new Uint8Array(Buffer.concat([file.subarray(0, start), inserted, file.subarray(start + removed)]));
}

export function randomBytes(random: Random, length: number): Uint8Array {
  return Uint8Array.from({ length }, () => below(random, 256));
}

export function flipBits(
  file: Uint8Array,
  random: Random,
  from: number,
  to: number,
  count: number,
): Uint8Array {
  const copy = file.slice();
  for (let i = 0; i < count && to > from; i++) {
    const position = from + below(random, to - from);
    copy[position] = copy[position]! ^ (1 << below(random, 8));
  }
  return copy;
}

const LENGTHS = [
  0n,
  1n,
  7n,
  8n,
  99_999_999n,
  100_000_000n,
  100_000_001n,
  2n ** 31n,
  2n ** 32n + 2n,
  2n ** 53n + 1n,
  2n ** 63n,
  2n ** 64n - 8n,
  2n ** 64n - 1n,
];
const NUMBERS = [
  "0",
  "1",
  "-1",
  "-0",
  "1.0",
  "1e1",
  "1e999",
  "01",
  "4294967296",
  "9007199254740991",
  "9007199254740993",
  "18446744073709551615",
  "18446744073709551616",
  "9".repeat(400),
  "null",
  "[]",
  '"1"',
  "NaN",
];
const DTYPES = [
  "BOOL",
  "U8",
  "F4",
  "F6_E3M2",
  "F8_E5M2",
  "F16",
  "BF16",
  "F32",
  "C64",
  "F64",
  "U64",
  "f32",
  "",
  "__proto__",
  "Q8_0",
];
const SNIPPETS = [
  "{",
  "}",
  "[",
  "]",
  ",",
  ":",
  '"',
  "\\",
  "null",
  "true",
  " ",
  "\n",
  "\0",
  "\uFEFF",
  "\u2028",
  "\\u0000",
  "\\ud800",
  '"__metadata__":{},',
  '"__metadata__":{"a":1},',
  '"x":{},',
  '"__proto__":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},',
  "[".repeat(200),
  '{"a":'.repeat(200),
  "9".repeat(300),
  "é".repeat(50),
];

/** Changes the header's text and sets the length field to match. */
function editHeader(file: Uint8Array, edit: (text: string) => string): Uint8Array {
  const end = 8 + headerLength(file);
  const header = new TextEncoder().encode(edit(new TextDecoder().decode(file.subarray(8, end))));
  return withLengthField(splice(file, 8, end - 8, header), BigInt(header.byteLength));
}

/** Replaces one match of `pattern`, chosen at random. */
function replaceOne(text: string, random: Random, pattern: RegExp, make: (found: string) => string): string {
  const matches = [...text.matchAll(pattern)];
  if (matches.length === 0) return text;
  const match = pick(random, matches);
  return text.slice(0, match.index) + make(match[0]) + text.slice(match.index + match[0].length);
}

const ENTRY = /"(?:[^"\\]|\\.)*":\{"dtype":"[^"]*","shape":\[[^\]]*\],"data_offsets":\[[^\]]*\]\},?/g;

const HEADER_EDITS: ((text: string, random: Random) => string)[] = [
  (text, random) => replaceOne(text, random, /[0-9]+/g, () => pick(random, NUMBERS)),
  (text, random) =>
    replaceOne(text, random, /[0-9]+/g, (found) =>
      String(Number(found) + pick(random, [-8, -4, -1, 1, 4, 8])),
    ),
  (text, random) => replaceOne(text, random, /"dtype":"[^"]*"/g, () => `"dtype":"${pick(random, DTYPES)}"`),
  (text, random) =>
    replaceOne(text, random, ENTRY, (found) => (found.endsWith(",") ? found + found : `${found},${found}`)),
  (text, random) => replaceOne(text, random, ENTRY, () => ""),
  (text, random) =>
    replaceOne(text, random, /"(?:dtype|shape|data_offsets)"/g, () =>
      pick(random, ['"dtype"', '"shape"', '"data_offsets"', '"x"']),
    ),
  (text, random) => replaceOne(text, random, /[{}[\],:"]/g, () => pick(random, SNIPPETS)),
  (text, random) => replaceOne(text, random, /[{,]/g, (found) => found + pick(random, SNIPPETS)),
  (text, random) => replaceOne(text, random, /\{"dtype"/g, () => `{"x":${"[".repeat(below(random, 140))}`),
  (text, random) =>
    replaceOne(text, random, /"[^"]*":/g, (found) => found.replace(/"$/, `${pick(random, SNIPPETS)}"`)),
  (text, random) => {
    const at = below(random, text.length + 1);
    const size = below(random, 20);
    return text.slice(0, at) + text.slice(at + size);
  },
  (text, random) => {
    const [a, b] = [below(random, text.length), below(random, text.length)];
    return text + text.slice(Math.min(a, b), Math.max(a, b));
  },
  (text, random) => text + pick(random, [" ", "\n", "\0", "x", "{}", " ".repeat(10_000)]),
  (text) => `{"__metadata__":{${Array.from({ length: 500 }, (_, i) => `"k${i}":"v"`)}},${text.slice(1)}`,
];

/** Each kind of mutation, by name. */
export const MUTATORS = {
  "flip bits anywhere": (seed, random) => ({
    bytes: flipBits(seed, random, 0, seed.byteLength, 1 + below(random, 8)),
  }),
  "flip bits in the header": (seed, random) => ({
    bytes: flipBits(seed, random, 8, 8 + headerLength(seed), 1 + below(random, 4)),
  }),
  "flip a bit in the data": (seed, random) => {
    const dataStart = 8 + headerLength(seed);
    if (dataStart === seed.byteLength) return { bytes: seed.slice() };
    const flip = {
      position: dataStart + below(random, seed.byteLength - dataStart),
      mask: 1 << below(random, 8),
    };
    const bytes = seed.slice();
    bytes[flip.position] = bytes[flip.position]! ^ flip.mask;
    return { bytes, flip };
  },
  truncate: (seed, random) => ({ bytes: seed.slice(0, below(random, seed.byteLength)) }),
  "insert bytes": (seed, random) => {
    const inserted = randomBytes(random, 1 + below(random, pick(random, [4, 64, 5000])));
    return { bytes: splice(seed, below(random, seed.byteLength + 1), 0, inserted) };
  },
  "remove bytes": (seed, random) => ({
    bytes: splice(seed, below(random, seed.byteLength), 1 + below(random, 64), new Uint8Array(0)),
  }),
  "overwrite bytes": (seed, random) => {
    const length = 1 + below(random, 16);
    return { bytes: splice(seed, below(random, seed.byteLength), length, randomBytes(random, length)) };
  },
  "set the length field": (seed, random) => ({ bytes: withLengthField(seed, pick(random, LENGTHS)) }),
  "shift the length field": (seed, random) => ({
    bytes: withLengthField(seed, BigInt(headerLength(seed)) + BigInt(below(random, 65) - 32)),
  }),
  "edit the header": (seed, random) => ({
    bytes: editHeader(seed, (text) => pick(random, HEADER_EDITS)(text, random)),
  }),
  "edit the header thrice": (seed, random) => ({
    bytes: editHeader(seed, (text) => {
      let edited = text;
      for (let i = 0; i < 3; i++) edited = pick(random, HEADER_EDITS)(edited, random);
      return edited;
    }),
  }),
} as const satisfies Record<string, Mutator>;

export type MutatorName = keyof typeof MUTATORS;
