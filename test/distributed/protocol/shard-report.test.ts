// What a node says about its data: short texts that mean long lists are refused before the lists are made.

import { expect, test } from "vitest";
import { parseRanges } from "../../../src/distributed/protocol/shard-ranges.js";
import {
  encodeShardReport,
  parseShardReport,
  type ShardReport,
} from "../../../src/distributed/protocol/shard-report.js";

const report: ShardReport = {
  corpus: { samples: 100, sha256: "a".repeat(64) },
  shardCount: 8,
  wanted: 2,
  done: [
    { epoch: 0, shards: [0, 1, 2, 7] },
    { epoch: 1, shards: [3] },
  ],
};

test("a report comes back as it was", () => {
  expect(parseShardReport(encodeShardReport(report))).toEqual(report);
});

test("ranges that overlap, go back or end too late are none", () => {
  expect(parseRanges("0-3,7", 8)).toEqual([0, 1, 2, 3, 7]);
  for (const text of ["0-3,2-5", "3-1", "3,1", "1,1", "0-8", "1-1", "0,1", "01", "-1", "0-", "a"])
    expect(parseRanges(text, 8), text).toBe(undefined);
});

test("half a megabyte of overlapping ranges costs nothing", () => {
  const text = Array.from({ length: 30_000 }, () => "0-999998").join(",");
  const start = performance.now();
  expect(parseRanges(text, 1_000_000)).toBe(undefined);
  expect(performance.now() - start).toBeLessThan(2000);
});

test("more finished shards than a run can have are none, and wishes end at what there is", () => {
  const text = (changes: object) => JSON.stringify({ ...JSON.parse(encodeShardReport(report)), ...changes });
  expect(parseShardReport(text({ wanted: 2 ** 50 }))?.wanted).toBe(8);
  expect(parseShardReport(text({ done: [[-1, "0"]] }))).toBe(undefined);
  const all = Array.from({ length: 3 }, (_, epoch) => [epoch, "0-999999"]);
  expect(parseShardReport(text({ shard_count: 1_000_000, done: all }))).toBe(undefined);
  expect(parseShardReport(text({ shard_count: 1_000_000, done: all.slice(0, 2) }))?.done).toHaveLength(2);
});
