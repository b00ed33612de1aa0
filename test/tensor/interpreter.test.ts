// The reference interpreter behind its two faces: the backend contract and eager evaluation.

import { expect, test } from "vitest";
import {
  add,
  evaluate,
  evaluateGraph,
  exp,
  type Feeds,
  gather,
  input,
  matmul,
  mul,
  neg,
  Parameter,
  referenceBackend,
  toGraph,
} from "../../src/tensor/index.js";
import { ModelError } from "../../src/util/errors.js";

const x = input("x", [2], "float32");
const ids = input("ids", [2], "int32");
const graph = toGraph({ twice: mul(x, 2), same: x, rows: gather(x, ids) });
const feeds = {
  x: { dtype: "float32", shape: [2], data: Float32Array.of(3, 4) },
  ids: { dtype: "int32", shape: [2], data: Int32Array.of(1, 1) },
} as const satisfies Feeds;

test("a graph gives its outputs by name", () => {
  expect(evaluateGraph(graph, feeds)).toEqual({
    twice: { dtype: "float32", shape: [2], data: Float32Array.of(6, 8) },
    same: { dtype: "float32", shape: [2], data: Float32Array.of(3, 4) },
    rows: { dtype: "float32", shape: [2], data: Float32Array.of(4, 4) },
  });
});

test("results share no memory with feeds or one another", () => {
  const { same, twice } = evaluateGraph(toGraph({ same: x, twice: x }), { x: feeds.x });
  expect(same!.data).not.toBe(feeds.x.data);
  expect(same!.data).not.toBe(twice!.data);
});

test.each<[string, string, Feeds]>([
  ['input "ids" int32[2] is not fed', "backend.missing_feed", { x: feeds.x }],
  [
    '"y" is fed but is no input of this graph: its inputs are "x", "ids"',
    "backend.unknown_feed",
    { ...feeds, y: feeds.x },
  ],
  ['input "x" must be float32[2], got int32[2]', "backend.wrong_feed", { ...feeds, x: feeds.ids }],
  [
    'input "x" must be float32[2], got float32[2, 1]',
    "backend.wrong_feed",
    { ...feeds, x: { ...feeds.x, shape: [2, 1] } },
  ],
  [
    'input "x" has 3 values for shape [2]',
    "backend.wrong_feed",
    { ...feeds, x: { ...feeds.x, data: new Float32Array(3) } },
  ],
  [
    'input "x" of dtype float32 must be held in a Float32Array, got a Float64Array',
    "backend.wrong_feed",
    { ...feeds, x: { ...feeds.x, data: new Float64Array(2) } },
  ],
])("refuses feeds: %s", (message, code, wrong) => {
  expect(() => evaluateGraph(graph, wrong)).toThrow(expect.objectContaining({ message, code }));
});

test("the backend writes into given arrays and returns fresh ones", async () => {
  const executable = await referenceBackend.compile(graph);
  const into = { twice: { dtype: "float32", shape: [2], data: new Float32Array(2) } } as const;
  const results = await executable.run(feeds, into);
  expect(results.twice).toBe(into.twice);
  expect(into.twice.data).toEqual(Float32Array.of(6, 8));
  expect(results.rows!.data).toEqual(Float32Array.of(4, 4));

  const nowhere = executable.run(feeds, { other: into.twice });
  await expect(nowhere).rejects.toThrow('the graph has no output "other"');
  const misfit = executable.run(feeds, { twice: { ...into.twice, shape: [1, 2] } });
  await expect(misfit).rejects.toThrow('the array for output "twice" must be float32[2], got float32[1, 2]');

  await executable.close();
  await expect(executable.run(feeds)).rejects.toThrow(ModelError);
});

test("evaluate takes parameters' own values", () => {
  const weight = new Parameter([2, 2], { data: Float32Array.of(1, 2, 3, 4) });
  const bias = new Parameter([2]);
  const h = input("h", [1, 2], "float32");
  const fed = { h: { dtype: "float32", shape: [1, 2], data: Float32Array.of(1, 1) } } as const;
  const y = add(matmul(h, weight), bias);
  expect(evaluate(y, fed).data).toEqual(Float32Array.of(4, 6));
  bias.data[1] = 10;
  expect(evaluate([y, bias], fed).map(({ data }) => data)).toEqual([
    Float32Array.of(4, 16),
    Float32Array.of(0, 10),
  ]);
  expect(evaluate([])).toEqual([]);
  expect(() => evaluate(y)).toThrow('input "h" float32[1, 2] is not fed');
});

test("a graph survives being copied to another thread", () => {
  const sent = structuredClone(toGraph({ y: neg(exp(x)) }));
  expect(evaluateGraph(sent, { x: feeds.x })).toEqual(
    evaluateGraph(toGraph({ y: neg(exp(x)) }), { x: feeds.x }),
  );
});
