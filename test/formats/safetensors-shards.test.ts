// Sharded sets: one model over several files, by an index that must agree with them.

import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, test } from "vitest";

import {
  bytesSource,
  encodeSafetensors,
  openShardedSafetensors,
  openShardedSafetensorsFiles,
  parseShardIndex,
  saveSafetensorsFile,
} from "../../src/formats/safetensors/index.node.js";

const encode = (text: string) => new TextEncoder().encode(text);
const tensor = (name: string, value: number) => ({
  name,
  dtype: "U8" as const,
  shape: [3],
  data: new Uint8Array(3).fill(value),
});
const FIRST = encodeSafetensors([tensor("a", 1), tensor("b", 2)], { part: "1" });
const SECOND = encodeSafetensors([tensor("c", 3)]);

/** Opens a set of shards in memory and counts the sources that are still open. */
async function openSet(
  weightMap: Record<string, string>,
  shards: Record<string, Uint8Array> = { one: FIRST, two: SECOND },
) {
  const index = parseShardIndex(encode(JSON.stringify({ weight_map: weightMap })), "index.json");
  let open = 0;
  const opening = openShardedSafetensors(index, async (name) => {
    open += 1;
    return {
      ...bytesSource(shards[name]!, name),
      close: async () => {
        open -= 1;
      },
    };
  });
  const [result] = await Promise.allSettled([opening]);
  return { result, openSources: () => open };
}

const MAP = { a: "one", b: "one", c: "two" };

describe("reading", () => {
  test("tensors come from their shards; closing closes all", async () => {
    const { result, openSources } = await openSet(MAP);
    if (result.status === "rejected") throw result.reason;
    const set = result.value;
    expect([...set.entries.keys()]).toEqual(["a", "b", "c"]);
    expect(set.shards.get("one")!.metadata.get("part")).toBe("1");
    expect(set.entry("c")).toMatchObject({ name: "c", dtype: "U8", shape: [3], dataOffsets: [0, 3] });
    expect([...(await set.read("b")).bytes]).toEqual([2, 2, 2]);
    expect([...(await set.readRange("c", 1, 2))]).toEqual([3]);
    const target = new Uint8Array(3);
    await set.readInto("c", target);
    expect([...target]).toEqual([3, 3, 3]);
    const pieces: number[] = [];
    for await (const piece of set.chunks("a", 2)) pieces.push(piece.byteLength);
    expect(pieces).toEqual([2, 1]);
    await expect(set.read("d")).rejects.toMatchObject({
      code: "safetensors.tensor_not_found",
      file: "index.json",
    });
    expect(openSources()).toBe(2);
    await set.close();
    expect(openSources()).toBe(0);
  });

  test("from files beside the index", async () => {
    const folder = mkdtempSync(join(tmpdir(), "shards-"));
    try {
      const names = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"] as const;
      await saveSafetensorsFile(join(folder, names[0]), [tensor("a", 1)]);
      await saveSafetensorsFile(join(folder, names[1]), [tensor("b", 2)]);
      const index = { metadata: { total_size: 6 }, weight_map: { a: names[0], b: names[1] } };
      const path = join(folder, "model.safetensors.index.json");
      writeFileSync(path, JSON.stringify(index, null, 2));
      const set = await openShardedSafetensorsFiles(path);
      expect([...(await set.read("b")).bytes]).toEqual([2, 2, 2]);
      await set.close();
      rmSync(join(folder, names[1]));
      await expect(openShardedSafetensorsFiles(path)).rejects.toMatchObject({ code: "ENOENT" });
    } finally {
      rmSync(folder, { recursive: true });
    }
  });
});

describe("refused", () => {
  test.each<[string, Record<string, string>, Record<string, Uint8Array> | undefined, string]>([
    [
      "a tensor that its shard lacks",
      { ...MAP, d: "two" },
      undefined,
      'tensor "d": the index says it is in "two", but',
    ],
    [
      "a tensor that the index does not know",
      { a: "one", c: "two" },
      undefined,
      'tensor "b": it is in "one", but the index does not know it',
    ],
    [
      "a tensor in a second shard",
      MAP,
      { one: FIRST, two: encodeSafetensors([tensor("a", 9), tensor("c", 3)]) },
      'tensor "a": it is in "two", but the index says it is in "one"',
    ],
    ["a shard that is cut", MAP, { one: FIRST, two: SECOND.subarray(0, -1) }, "two: file is truncated: have"],
  ])("%s, and every source is closed", async (_name, map, shards, message) => {
    const { result, openSources } = await openSet(map, shards);
    expect(result).toMatchObject({
      status: "rejected",
      reason: { message: expect.stringContaining(message) },
    });
    expect(openSources()).toBe(0);
  });

  test.each<[string, string, string]>([
    ["no JSON", "weights", "header_syntax"],
    ["no weight_map", '{"metadata":{}}', "invalid_entry"],
    ["weight_map twice", '{"weight_map":{},"weight_map":{}}', "duplicate_key"],
    ["a tensor twice", '{"weight_map":{"a":"x","a":"y"}}', "duplicate_key"],
    ["a file that is no text", '{"weight_map":{"a":1}}', "header_syntax"],
    ["a path upwards", '{"weight_map":{"a":"../x"}}', "invalid_name"],
    ["an absolute path", '{"weight_map":{"a":"/etc/passwd"}}', "invalid_name"],
    ["a path of Windows", '{"weight_map":{"a":"c:\\\\x"}}', "invalid_name"],
    ["the folder above", '{"weight_map":{"a":".."}}', "invalid_name"],
    ["text after the end", '{"weight_map":{}} x', "header_syntax"],
  ])("index with %s", (_name, text, problem) => {
    expect(() => parseShardIndex(encode(text), "index.json")).toThrow(
      expect.objectContaining({ code: `safetensors.${problem}`, file: "index.json" }),
    );
  });
});
