// Files read on the calling thread: the same tables, bytes and errors as the other readers have.

import { truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";

import {
  encodeSafetensors,
  openSafetensorsFileSync,
  parseSafetensors,
  type TensorInput,
} from "../../src/formats/safetensors/index.node.js";
import { temporaryFolder } from "../train/helpers.js";

function writeTensors(tensors: TensorInput[], metadata: Record<string, string> = {}) {
  const path = join(temporaryFolder(), "model.safetensors");
  const bytes = encodeSafetensors(tensors, metadata);
  writeFileSync(path, bytes);
  return { path, view: parseSafetensors(bytes) };
}

const tensor = (name: string, length: number): TensorInput => ({
  name,
  dtype: "F32",
  shape: [length],
  data: Float32Array.from({ length }, (_, i) => i + name.length),
});

describe("a file read without waiting", () => {
  test.each([
    ["a short header", 3],
    ["a header beyond the first read", 3000],
  ])("%s: table, metadata and bytes", (_label, count) => {
    const tensors = Array.from({ length: count }, (_, i) => tensor(`layer.${i}`, 1 + (i % 7)));
    const { path, view } = writeTensors(tensors, { k: "v" });
    const file = openSafetensorsFileSync(path);
    expect([...file.entries]).toEqual([...view.entries]);
    expect([...file.metadata]).toEqual([["k", "v"]]);
    for (const { name, sizeBytes } of file.entries.values()) {
      const target = new Uint8Array(sizeBytes);
      file.readRangeInto(name, 0, target);
      expect(target).toEqual(new Uint8Array(view.read(name).bytes));
    }
    file.close();
  });

  test("a part of a tensor, and nothing beyond it", () => {
    const { path, view } = writeTensors([tensor("a", 4), tensor("b", 4)]);
    const file = openSafetensorsFileSync(path);
    const target = new Uint8Array(8);
    file.readRangeInto("b", 4, target);
    expect(target).toEqual(new Uint8Array(view.read("b").bytes.subarray(4, 12)));
    expect(() => file.readRangeInto("a", 12, target)).toThrow(
      "bytes 12 to 20 are outside of a tensor of 16 bytes",
    );
    expect(() => file.readRangeInto("a", -1, target)).toThrow(RangeError);
    expect(() => file.readRangeInto("c", 0, target)).toThrow(
      expect.objectContaining({ code: "safetensors.tensor_not_found" }),
    );
    file.close();
  });

  test("a file that shrinks while it is open is refused by tensor", () => {
    const { path } = writeTensors([tensor("a", 4), tensor("b", 4)]);
    const file = openSafetensorsFileSync(path);
    truncateSync(path, file.dataStart + 20);
    expect(() => file.readRangeInto("b", 0, new Uint8Array(16))).toThrow(
      expect.objectContaining({ code: "safetensors.truncated", file: path, tensor: "b" }),
    );
    file.close();
  });

  test("a closed file reads nothing, whatever has its descriptor now", () => {
    const { path } = writeTensors([tensor("a", 4)]);
    const file = openSafetensorsFileSync(path);
    file.close();
    file.close();
    expect(() => file.readRangeInto("a", 0, new Uint8Array(16))).toThrow(
      expect.objectContaining({ code: "safetensors.source" }),
    );
  });

  test("a damaged file is refused", () => {
    const path = join(temporaryFolder(), "model.safetensors");
    writeFileSync(path, "not one");
    expect(() => openSafetensorsFileSync(path)).toThrow(
      expect.objectContaining({ code: "safetensors.truncated", file: path }),
    );
  });
});
