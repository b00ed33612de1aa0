// What a resume is told about a checkpoint that does not quite fit.

import { expect, it } from "vitest";

import {
  compareFingerprints,
  describeDifference,
  environmentNotes,
  explainDifferences,
  requireSameModel,
} from "../../src/checkpoint/index.js";
import { stateAt } from "./fixtures.js";

const saved = { n_head: 4, tied: true, rope: { base: 10000, scaling: null }, sizes: [1, 2], empty: {} };

it("finds no difference between equal descriptions, whatever the order of their keys", () => {
  const reordered = { empty: {}, sizes: [1, 2], rope: { scaling: null, base: 10000 }, tied: true, n_head: 4 };
  expect(explainDifferences(saved, reordered)).toEqual([]);
  expect(() => requireSameModel(saved, reordered, "x")).not.toThrow();
});

it("lists every differing, missing and added field by its path", () => {
  const current = {
    n_head: 8,
    rope: { base: 10000, scaling: 2 },
    sizes: [2, 1],
    empty: {},
    dtype: "float32",
  };
  const differences = explainDifferences(saved, current);
  expect(differences).toEqual([
    { field: "dtype", saved: undefined, current: "float32" },
    { field: "n_head", saved: 4, current: 8 },
    { field: "rope.scaling", saved: null, current: 2 },
    { field: "sizes", saved: [1, 2], current: [2, 1] },
    { field: "tied", saved: true, current: undefined },
  ]);
  expect(differences.map(describeDifference)).toEqual([
    'dtype: saved nothing, now "float32"',
    "n_head: saved 4, now 8",
    "rope.scaling: saved null, now 2",
    "sizes: saved [1,2], now [2,1]",
    "tied: saved true, now nothing",
  ]);
});

it("refuses another model with all differences in one message", () => {
  const refuse = () =>
    requireSameModel(saved, { ...saved, n_head: 8, tied: false }, "/runs/a/step-000000000001");
  expect(refuse).toThrow(
    /step-000000000001.*another model.*n_head: saved 4, now 8; tied: saved true, now false/,
  );
  expect(refuse).toThrow(expect.objectContaining({ code: "checkpoint.model_differs", exitCode: 4 }));
});

it("keeps the parts of a fingerprint apart", () => {
  const { fingerprint } = stateAt(1);
  const current = { ...fingerprint, optimizer: { ...fingerprint.optimizer, lr: 0.001 } };
  expect(compareFingerprints(fingerprint, current)).toEqual({
    model: [],
    data: [],
    optimizer: [{ field: "lr", saved: 0.002, current: 0.001 }],
    distributed: [],
  });
});

it("does not compare data or optimizer where nothing was saved of them", () => {
  const { fingerprint } = stateAt(1);
  const imported = { ...fingerprint, data: {}, optimizer: {} };
  expect(compareFingerprints(imported, fingerprint)).toMatchObject({ data: [], optimizer: [] });
  expect(compareFingerprints(fingerprint, imported).optimizer).not.toEqual([]);
});

it("has nothing to say of a checkpoint that no machine running this library wrote", () => {
  const { environment } = stateAt(1);
  expect(environmentNotes({ ...environment, node: "none", cpu: "unknown" }, environment)).toEqual([]);
});

it("says in a sentence that bits may differ on other threads or another CPU", () => {
  const { environment } = stateAt(1);
  expect(environmentNotes(environment, environment)).toEqual([]);
  expect(environmentNotes(environment, { ...environment, threads: 8, cpu: "other" })).toEqual([
    'the CPU changed from "test cpu" to "other": results may differ in their last bits from those of an ' +
      "uninterrupted run",
    "the thread count changed from 2 to 8: results may differ in their last bits from those of an uninterrupted run",
  ]);
});
