// Each rewrite of `simplify`, and cases that look like one but are not.

import { expect, test } from "vitest";
import {
  add,
  div,
  full,
  mul,
  neg,
  stopGradient,
  sub,
  where,
  zeros,
} from "../../../src/tensor/functions/elementwise.js";
import { scatterAdd, scatterAddAlong } from "../../../src/tensor/functions/indexing.js";
import { transpose } from "../../../src/tensor/functions/shape.js";
import { apply } from "../../../src/tensor/ops/shape-rules.js";
import { simplify } from "../../../src/tensor/passes/simplify.js";
import { input, type Tensor } from "../../../src/tensor/tensor.js";
import { toGraph } from "../../../src/tensor/trace/graph.js";
import { describeGraph, x32 } from "./graphs.js";

const x = x32("x", 2, 3);
const row = x32("row", 3);
const ids = input("ids", [4], "int32");
const updates = x32("updates", 4, 3);
const along = input("along", [2, 1], "int32");
const alongUpdates = x32("alongUpdates", 2, 1);

const simplified = (y: Tensor) => describeGraph(simplify(toGraph({ y })))[0]!.slice("y = ".length);
const reshaped = (t: Tensor, ...shape: number[]) => apply("reshape", [t], { shape });
const expanded = (t: Tensor, ...shape: number[]) => apply("expand", [t], { shape });
const scattered = scatterAdd(zeros([2, 3]), ids, updates);

test.each<[string, Tensor, string]>([
  ["x · 1", mul(x, 1), "x"],
  ["1 · x", mul(1, x), "x"],
  ["x · ones", mul(x, full([2, 3], 1)), "x"],
  ["x · full([], 1)", mul(full([], 1), x), "x"],
  ["x + 0", add(x, 0), "x"],
  ["0 + x", add(0, x), "x"],
  ["x + zeros", add(zeros([3]), x), "x"],
  ["x − 0", sub(x, 0), "x"],
  ["x / 1", div(x, 1), "x"],
  ["x · 1 / 1 + 0 − 0", sub(add(div(mul(x, 1), 1), 0), 0), "x"],
  ["−(−x)", neg(neg(x)), "x"],
  ["−(−(−x))", neg(neg(neg(x))), "neg(x)"],
  ["transposed twice", transpose(transpose(x)), "x"],
  [
    "transposed twice, otherwise",
    transpose(transpose(x32("z", 2, 3, 4), [1, 2, 0]), [0, 2, 1]),
    "transpose(z)",
  ],
  ["transposed by nothing", apply("transpose", [x], { perm: [0, 1] }), "x"],
  ["reshaped twice", reshaped(reshaped(x, 6), 3, 2), "reshape(x)"],
  ["reshaped and back", reshaped(reshaped(x, 6), 2, 3), "x"],
  ["reshaped to its shape", reshaped(x, 2, 3), "x"],
  ["expanded to its shape", expanded(x, 2, 3), "x"],
  ["expanded twice", expanded(expanded(row, 2, 3), 5, 2, 3), "expand(row)"],
  ["cast to its dtype", apply("cast", [x], { dtype: "float32" }), "x"],
  ["stopGradient", stopGradient(x), "x"],
  ["an operand that broadcasting expands anyway", mul(x, expanded(row, 2, 3)), "mul(x, row)"],
  [
    "choices that broadcasting expands anyway",
    where(input("c", [2, 3], "bool"), full([2, 3], 5), x),
    "where(c, 5, x)",
  ],
  ["a scatter into zeros", add(x, scattered), "scatterAdd(x, ids, updates)"],
  ["a scatter into zeros, first", add(scattered, x), "scatterAdd(x, ids, updates)"],
  [
    "two scatters",
    add(add(x, scattered), scatterAdd(zeros([2, 3]), ids, updates)),
    "scatterAdd(scatterAdd(x, ids, updates), ids, updates)",
  ],
  [
    "a scatter along an axis",
    add(x, scatterAddAlong(zeros([2, 3]), along, alongUpdates, 1)),
    "scatterAddAlong(x, along, alongUpdates)",
  ],
])("%s", (_, tensor, expected) => {
  expect(simplified(tensor)).toBe(expected);
});

test.each<[string, Tensor, string]>([
  ["1 that makes the result larger", mul(row, full([2, 3], 1)), "mul(row, expand(1))"],
  ["0 that makes the result larger", add(row, zeros([2, 3])), "add(row, expand(0))"],
  ["0 − x", sub(0, x), "sub(0, x)"],
  ["1 / x", div(1, x), "div(1, x)"],
  ["x · 0 (NaN stays NaN)", mul(x, 0), "mul(x, 0)"],
  ["x + 1", add(x, 1), "add(x, 1)"],
  [
    "two expansions that make the shape together",
    add(expanded(row, 2, 3), expanded(row, 2, 3)),
    "add(row, expand(row))",
  ],
  [
    "a scatter into something",
    add(x, scatterAdd(full([2, 3], 1), ids, updates)),
    "add(x, scatterAdd(expand(1), ids, updates))",
  ],
  ["a scatter that a row is added to", add(row, scattered), "add(row, scatterAdd(expand(0), ids, updates))"],
])("leaves %s", (_, tensor, expected) => {
  expect(simplified(tensor)).toBe(expected);
});

test("a scatter that is used twice stays", () => {
  const graph = simplify(toGraph({ y: add(x, scattered), z: scattered }));
  expect(describeGraph(graph)).toEqual([
    "y = add(x, scatterAdd(expand(0), ids, updates))",
    "z = scatterAdd(expand(0), ids, updates)",
  ]);
});
