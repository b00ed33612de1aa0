// The short cut for compact headers judges as the scanner does. A blank before the header's object, which means
// nothing, is what only the scanner reads: with and without it, a file must have the same tables or the same error.

import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";

import { parseSafetensors, SafetensorsError } from "../../src/formats/safetensors/index.js";
import { craft, entry } from "./craft.js";
import { MUTATORS, makeRandom, pick } from "./mutants.js";

interface Named {
  readonly name: string;
  /** Base64. */
  readonly bytes: string;
}

const load = <T>(file: string): T =>
  JSON.parse(readFileSync(new URL(`../fixtures/safetensors-verdicts/${file}`, import.meta.url), "utf8"));
const bytesOf = ({ bytes }: Named) => new Uint8Array(Buffer.from(bytes, "base64"));

function judge(bytes: Uint8Array) {
  try {
    const { entries, metadata } = parseSafetensors(bytes);
    return { entries: [...entries], metadata: [...metadata] };
  } catch (error) {
    if (error instanceof SafetensorsError) return { code: error.code, tensor: error.tensor };
    throw error;
  }
}

/** The same file with a blank before its header; undefined where it has no whole header. */
function withBlank(bytes: Uint8Array): Uint8Array | undefined {
  if (bytes.byteLength < 8) return undefined;
  const length = Number(new DataView(bytes.buffer, bytes.byteOffset).getBigUint64(0, true));
  if (8 + length > bytes.byteLength) return undefined;
  const header = Buffer.concat([Buffer.from(" "), bytes.subarray(8, 8 + length)]);
  return craft(header, bytes.subarray(8 + length));
}

function expectSame(bytes: Uint8Array, label: string): void {
  const scanned = withBlank(bytes);
  if (scanned !== undefined) expect(judge(bytes), label).toEqual(judge(scanned));
}

describe("with and without a blank before the header", () => {
  test("crafted files", () => {
    const { cases } = load<{ cases: Named[] }>("verdicts.json");
    for (const each of cases) expectSame(bytesOf(each), each.name);
  });

  test("mutants of files by Python's writer", () => {
    const seeds = load<{ seeds: Named[] }>("seeds.json").seeds.map(bytesOf);
    const random = makeRandom(20);
    const mutators = Object.entries(MUTATORS);
    for (let i = 0; i < 4000; i++) {
      const [name, mutate] = pick(random, mutators);
      expectSame(mutate(pick(random, seeds), random).bytes, `${name} ${i}`);
    }
  });

  const whole = entry("a", "F32", "[1]", 0, 4);
  const other = (field: string) => `"b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]${field}}`;
  test.each([
    [
      "numbers as names, out of their order",
      `{${entry("1", "U8", "[4]", 0, 4)},${entry("0", "U8", "[4]", 4, 8)}}`,
    ],
    ["__proto__ as a name", `{${whole},${entry("__proto__", "F32", "[1]", 4, 8)}}`],
    ["__proto__ as a field", `{${whole},${other(',"__proto__":{"shape":[2]}')}}`],
    ["an unknown field", `{${whole},${other(',"note":1')}}`],
    ["deep nesting in an unknown field", `{${whole},${other(`,"n":${"[".repeat(130)}${"]".repeat(130)}`)}}`],
    ["one name twice", `{${whole},${whole}}`],
    ["one field twice", `{${whole},${other(',"shape":[1]')}}`],
    [
      "metadata twice",
      `{"__metadata__":{"a":"1"},"__metadata__":{"a":"1"},${entry("a", "U8", "[8]", 0, 8)}}`,
    ],
    ["metadata null", `{"__metadata__":null,${entry("a", "U8", "[8]", 0, 8)}}`],
    ["a number in metadata", `{"__metadata__":{"a":1},${entry("a", "U8", "[8]", 0, 8)}}`],
    ["an escape of half a pair", `{"\\ud800":{"dtype":"U8","shape":[8],"data_offsets":[0,8]}}`],
    ["an escape of an ordinary letter", `{"\\u0061":{"dtype":"U8","shape":[8],"data_offsets":[0,8]}}`],
    ["minus zero", `{${whole},${entry("b", "F32", "[1]", 4, 8).replace("[1]", "[-0]")}}`],
    ["a fraction that is whole", `{${whole},${entry("b", "F32", "[1.0]", 4, 8)}}`],
    ["2^53", `{${entry("a", "U8", "[0,9007199254740992]", 0, 0)},${entry("b", "U8", "[8]", 0, 8)}}`],
    ["2^53 + 1", `{${entry("a", "U8", "[0,9007199254740993]", 0, 0)},${entry("b", "U8", "[8]", 0, 8)}}`],
    ["a hole", `{${whole},${entry("b", "U8", "[2]", 6, 8)}}`],
    ["data in another order than the names", `{${entry("b", "F32", "[1]", 4, 8)},${whole}}`],
    ["a no-break space at the end", `{${whole},${entry("b", "F32", "[1]", 4, 8)}}\u00a0`],
    ["a line end at the end", `{${whole},${entry("b", "F32", "[1]", 4, 8)}}\n `],
    ["text after the end", `{${whole},${entry("b", "F32", "[1]", 4, 8)}}{}`],
  ])("%s", (label, header) => {
    expectSame(craft(header, 8), label);
  });
});
