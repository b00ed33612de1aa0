// global/step_count.json: the bytes that Python writes, and what is read from whatever a peer has put there.

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  encodePythonJson,
  encodeVersionRecord,
  formatUpdatedAt,
  type JsonValue,
  metadataJson,
  parseVersionRecord,
  type VersionRecord,
} from "../../src/distributed/index.js";

const golden = `{
  "algorithm": "dumb_diloco",
  "model_file": "global/latest.safetensors",
  "optimizer": "nesterov_sgd",
  "outer_step": 41,
  "updated_at": "2026-03-04T05:06:07.891011+00:00"
}
`;

const record: VersionRecord = {
  outerStep: 41,
  modelFile: "global/latest.safetensors",
  updatedAt: "2026-03-04T05:06:07.891011+00:00",
  algorithm: "dumb_diloco",
  optimizer: "nesterov_sgd",
  isBootstrap: false,
  extra: {},
};

test("a record is written byte for byte as Python writes it, and read back", () => {
  expect(encodeVersionRecord(record)).toBe(golden);
  expect(parseVersionRecord(golden)).toEqual(record);
  expect(parseVersionRecord(new TextEncoder().encode(golden))).toEqual(record);
});

test("the first publication says so in a text, and names no optimizer", () => {
  const first = { ...record, outerStep: 0, optimizer: undefined, isBootstrap: true };
  expect(encodeVersionRecord(first)).toContain(
    '"algorithm": "dumb_diloco",\n  "bootstrap": "true",\n  "model_file"',
  );
  expect(parseVersionRecord(encodeVersionRecord(first))).toEqual(first);
});

test("keys of our own stand among the others in order, and come back", () => {
  const extra = { parent: null, hash: "é\u{1f600}\u007f", leases: [{ node: "a", shards: [] }], zeta: {} };
  const text = encodeVersionRecord({ ...record, extra });
  expect(text).toContain(
    '"hash": "\\u00e9\\ud83d\\ude00\\u007f",\n  "leases": [\n    {\n      "node": "a",\n      "shards": []\n    }\n  ],',
  );
  expect(parseVersionRecord(text).extra).toEqual(extra);
  expect(() => encodeVersionRecord({ ...record, extra: { outer_step: 1 } })).toThrow(
    "has a field of its own",
  );
});

describe("reading", () => {
  const step = (json: string) => parseVersionRecord(`{${json}}`).outerStep;

  test("takes every form of the step that Python takes", () => {
    expect(step('"outer_step": 7')).toBe(7);
    expect(step('"outer_step": 7.9')).toBe(7);
    expect(step('"outer_step": -0.5')).toBe(0);
    expect(step('"outer_step": " 7 "')).toBe(7);
    expect(step('"outer_step": "+1_000"')).toBe(1000);
    expect(step('"outer_step": true')).toBe(1);
    expect(step('"step": 3')).toBe(3);
    expect(step('"outer_step": 7, "step": 3')).toBe(7);
    expect(step("")).toBe(0);
  });

  test.each([
    "null",
    '"7.5"',
    '"x"',
    '""',
    "[]",
    "{}",
    "-1",
    "1e300",
    "9007199254740992",
    '"99999999999999999999"',
  ])("refuses a step of %s", (value) => {
    expect(() => step(`"outer_step": ${value}`)).toThrow(
      expect.objectContaining({ code: "wire.invalid_record" }),
    );
  });

  test("has Python's defaults for what is missing, and leaves odd descriptions out", () => {
    expect(parseVersionRecord('{"updated_at": 5, "algorithm": null, "__proto__": 1}')).toEqual({
      outerStep: 0,
      modelFile: "global/latest.safetensors",
      updatedAt: "",
      algorithm: undefined,
      optimizer: undefined,
      isBootstrap: false,
      extra: JSON.parse('{"__proto__": 1}'),
    });
  });

  test.each(["", "nonsense", "null", "[]", '"text"', "3", '{"a":'])("refuses the document %j", (text) => {
    expect(() => parseVersionRecord(text)).toThrow(expect.objectContaining({ code: "wire.invalid_record" }));
  });

  test("refuses bytes that are not UTF-8", () => {
    expect(() => parseVersionRecord(Uint8Array.of(0x7b, 0xff, 0x7d))).toThrow(
      "global/step_count.json: is not JSON",
    );
  });

  test.each(["null", "3", '"nodes/a/delta_1.safetensors"', '"global/../x.safetensors"'])(
    "does not follow a model_file of %s",
    (value) => {
      expect(() => parseVersionRecord(`{"model_file": ${value}}`)).toThrow(
        expect.objectContaining({ code: "wire.invalid_model_file" }),
      );
    },
  );
});

test("a record that cannot be read back is not written", () => {
  for (const outerStep of [-1, 0.5, 2 ** 53]) {
    expect(() => encodeVersionRecord({ ...record, outerStep })).toThrow("must be an integer");
  }
  expect(() => encodeVersionRecord({ ...record, modelFile: "x" })).toThrow("lies outside of global/");
  expect(() => encodeVersionRecord({ ...record, extra: { x: Number.NaN } })).toThrow("NaN cannot be written");
});

test("times have Python's form", () => {
  expect(formatUpdatedAt(Date.UTC(2026, 2, 4, 5, 6, 7, 891))).toBe("2026-03-04T05:06:07.891000+00:00");
  expect(formatUpdatedAt(Date.UTC(2026, 2, 4, 5, 6, 7))).toBe("2026-03-04T05:06:07+00:00");
});

describe("JSON text", () => {
  test.each([
    [0.7, "0.7"],
    [-0, "0"],
    [1e-4, "0.0001"],
    [0.00001, "1e-05"],
    [1.5e-7, "1.5e-07"],
    [1e16, "1e+16"],
    [1.25e300, "1.25e+300"],
    [9007199254740992, "9007199254740992.0"],
    [9007199254740991, "9007199254740991"],
    [123456789.125, "123456789.125"],
  ])("%d is written as Python writes it", (value, text) => {
    expect(encodePythonJson(value)).toBe(text);
    expect(JSON.parse(text) + 0).toBe(value + 0);
  });

  test("gives every value back", () => {
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        expect(JSON.parse(encodePythonJson(value as JsonValue))).toEqual(JSON.parse(JSON.stringify(value)));
      }),
      { seed: 9, numRuns: 300 },
    );
  });
});

test("metadataJson decodes all values or none", () => {
  expect(metadataJson({ a: "1", b: '{"c": [true]}', d: '"x"' })).toEqual({ a: 1, b: { c: [true] }, d: "x" });
  expect(
    metadataJson(
      new Map([
        ["a", "1"],
        ["b", "worker-1"],
      ]),
    ),
  ).toEqual({ a: "1", b: "worker-1" });
  expect(metadataJson({ a: "NaN" })).toEqual({ a: "NaN" });
  expect(metadataJson({})).toEqual({});
});
