// The same verdicts as Python's safetensors on a committed table of crafted files, apart from rules of ours that
// are stricter on purpose; and the same canonical layout as its writer. The table is made by
// interop/make_safetensors_verdicts.py.

import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";

import {
  encodeSafetensors,
  parseSafetensors,
  type SafetensorsDtype,
  SafetensorsError,
} from "../../src/formats/safetensors/index.js";
import { hex } from "./craft.js";

interface Tensor {
  name: string;
  dtype: SafetensorsDtype;
  shape: number[];
}

interface Accepted {
  name: string;
  /** The whole file, base64. */
  bytes: string;
  verdict: "accept";
  /** Sorted by name. */
  tensors: Tensor[];
  metadata: Record<string, string> | null;
}

type Case = Accepted | { name: string; bytes: string; verdict: "reject" };

/** Files that Python's reader takes and ours refuses, with the reason. Nothing is the other way round. */
const STRICTER: Record<string, { reason: string; cases: string[] }> = {
  "duplicate keys": {
    reason:
      "Two readers may take different entries of such a file, so that a checker sees other tensors than the user.",
    cases: [
      "duplicate tensor, same entry",
      "duplicate tensor, last one alone would be valid",
      "duplicate tensor by escape",
      "duplicate tensor among others",
      "duplicate key in metadata",
      "duplicate key in metadata by escape",
      "duplicate unknown field",
    ],
  },
  "other spellings of an entry": {
    reason:
      "Accidents of one implementation's JSON library that the format does not have and no writer uses.",
    cases: ['entry ["F32",[1],[0,4]]', 'dtype {"F32": null}'],
  },
  "dimensions above 2^53 - 1": {
    reason:
      "They would be rounded in a number; they are only possible beside a dimension of 0, where they mean nothing.",
    cases: ["overflow hidden by a zero at the start", "huge dimension times zero"],
  },
};

function load<T>(file: string): T {
  return JSON.parse(
    readFileSync(new URL(`../fixtures/safetensors-verdicts/${file}`, import.meta.url), "utf8"),
  ) as T;
}

const bytesOf = ({ bytes }: { bytes: string }) => new Uint8Array(Buffer.from(bytes, "base64"));
const byCodePoints = (a: { name: string }, b: { name: string }) =>
  Buffer.compare(Buffer.from(a.name), Buffer.from(b.name));

function judge(bytes: Uint8Array) {
  try {
    const view = parseSafetensors(bytes);
    const tensors = [...view.entries.values()].map(({ name, dtype, shape }) => ({ name, dtype, shape }));
    return { verdict: "accept", tensors: tensors.sort(byCodePoints), metadata: new Map(view.metadata) };
  } catch (error) {
    if (error instanceof SafetensorsError) return { verdict: "reject" };
    throw error;
  }
}

describe("verdicts", () => {
  const { cases } = load<{ cases: Case[] }>("verdicts.json");
  const stricter = Object.values(STRICTER).flatMap((rule) => rule.cases);

  test("the table is whole", () => {
    expect(cases.length).toBeGreaterThanOrEqual(300);
    expect(cases.filter((c) => c.verdict === "accept").length).toBeGreaterThanOrEqual(100);
    expect(new Set(cases.map((c) => c.name)).size).toBe(cases.length);
  });

  test.each(cases.filter((c) => !stricter.includes(c.name)).map((c) => [c.name, c] as const))(
    "%s",
    (_name, c) => {
      const expected =
        c.verdict === "accept"
          ? { verdict: c.verdict, tensors: c.tensors, metadata: new Map(Object.entries(c.metadata ?? {})) }
          : { verdict: c.verdict };
      expect(judge(bytesOf(c))).toEqual(expected);
    },
  );

  test("the stricter rules are exactly the listed ones", () => {
    const refusedByUsOnly = cases
      .filter((c) => c.verdict === "accept" && judge(bytesOf(c)).verdict === "reject")
      .map((c) => c.name);
    expect(refusedByUsOnly.sort()).toEqual(stricter.sort());
  });
});

describe("layout of Python's writer", () => {
  const { seeds } = load<{ seeds: Omit<Accepted, "verdict">[] }>("seeds.json");

  test.each(seeds.map((seed) => [seed.name, seed] as const))(
    "%s: read and written again, the same bytes",
    (_name, seed) => {
      const original = bytesOf(seed);
      const view = parseSafetensors(original);
      const tensors = [...view.entries.keys()].reverse().map((name) => {
        const { dtype, shape, bytes } = view.read(name);
        return { name, dtype, shape, data: bytes };
      });
      expect(tensors.map(({ name, dtype, shape }) => ({ name, dtype, shape })).sort(byCodePoints)).toEqual(
        seed.tensors,
      );
      const again = encodeSafetensors(tensors, view.metadata);
      expect(hex(again)).toBe(
        hex(view.metadata.size > 0 ? original : withEmptyMetadata(original, view.dataStart)),
      );
    },
  );
});

/** Python leaves out metadata that were not given; here and in Speedtronic's own files an empty map stands there. */
function withEmptyMetadata(file: Uint8Array, dataStart: number): Uint8Array {
  const text = Buffer.from(file.subarray(8, dataStart)).toString().trimEnd();
  const rest = text.slice(1);
  const header = `{"__metadata__":{}${rest === "}" ? "" : ","}${rest}`;
  const padded = Buffer.from(header + " ".repeat((8 - (Buffer.byteLength(header) % 8)) % 8));
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(padded.byteLength));
  return Buffer.concat([length, padded, file.subarray(dataStart)]);
}
