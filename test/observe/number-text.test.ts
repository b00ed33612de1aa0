// Number text against values printed by C's printf and Python's repr.
import { describe, expect, test } from "vitest";
import { formatCount, formatDuration, formatGeneral, formatPythonFloat } from "../../src/observe/index.js";

describe("formatGeneral is %.6g", () => {
  const golden: [number, string][] = [
    [0, "0"],
    [-0, "-0"],
    [1, "1"],
    [2.5, "2.5"],
    [-3.25, "-3.25"],
    [0.1, "0.1"],
    [0.0003, "0.0003"],
    [0.0001, "0.0001"],
    [0.00001, "1e-05"],
    [0.000099999999, "0.0001"],
    [1e-20, "1e-20"],
    [123456789, "1.23457e+08"],
    [123456, "123456"],
    [1234567, "1.23457e+06"],
    [999999.5, "1e+06"],
    [999999.4, "999999"],
    [100000, "100000"],
    [1e6, "1e+06"],
    [123456.5, "123456"],
    [123457.5, "123458"],
    [2.345678912, "2.34568"],
    [5e-324, "4.94066e-324"],
    [1.7976931348623157e308, "1.79769e+308"],
    [Number.NaN, "nan"],
    [Number.POSITIVE_INFINITY, "inf"],
    [Number.NEGATIVE_INFINITY, "-inf"],
    [1e100, "1e+100"],
    [0.5, "0.5"],
    [-1e-7, "-1e-07"],
  ];
  test.each(golden)("%d", (value, text) => expect(formatGeneral(value)).toBe(text));

  test("ties at fewer digits go to the even one", () => {
    expect([0.5, 1.5, 2.5, 25, 35].map((x) => formatGeneral(x, 1))).toEqual([
      "0.5",
      "2",
      "2",
      "2e+01",
      "4e+01",
    ]);
  });
});

test("formatPythonFloat is repr", () => {
  const golden: [number, string][] = [
    [5, "5.0"],
    [0, "0.0"],
    [-0, "-0.0"],
    [0.1, "0.1"],
    [1e16, "1e+16"],
    [1e15, "1000000000000000.0"],
    [0.0001, "0.0001"],
    [0.00001, "1e-05"],
    [1.5e-7, "1.5e-07"],
    [2.345678901234567, "2.345678901234567"],
    [123456789.125, "123456789.125"],
    [Number.NaN, "nan"],
    [Number.NEGATIVE_INFINITY, "-inf"],
  ];
  expect(golden.map(([value]) => formatPythonFloat(value))).toEqual(golden.map(([, text]) => text));
});

test("formatDuration", () => {
  const golden: [number, string][] = [
    [0, "0ms"],
    [0.0421, "42ms"],
    [0.9999, "1.0s"],
    [9.44, "9.4s"],
    [9.96, "10s"],
    [59.6, "1m 00s"],
    [192, "3m 12s"],
    [3599.7, "1h 00m"],
    [7500, "2h 05m"],
    [86_399, "1d 00h"],
    [273_600, "3d 04h"],
    [Number.NaN, "?"],
    [Number.POSITIVE_INFINITY, "?"],
    [-1, "?"],
  ];
  expect(golden.map(([value]) => formatDuration(value))).toEqual(golden.map(([, text]) => text));
});

test("formatCount", () => {
  const golden: [number, string][] = [
    [0, "0"],
    [7, "7"],
    [950, "950"],
    [999.7, "1k"],
    [12_345, "12.3k"],
    [999_960, "1M"],
    [1_340_000, "1.34M"],
    [7e9, "7B"],
    [2.5e12, "2.5T"],
    [0.1234, "0.123"],
    [Number.NaN, "nan"],
  ];
  expect(golden.map(([value]) => formatCount(value))).toEqual(golden.map(([, text]) => text));
});
