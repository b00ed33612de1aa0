// Copying a large source: few and large reads, into two buffers, one of them being filled while the other is written.

import { expect, test } from "vitest";
import { copySource } from "../../../src/distributed/node/aggregator-surroundings.js";

const MIB = 2 ** 20;
const SIZE = 20 * MIB + 5;
const byteAt = (position: number) => (position * 7 + (position >> 12)) & 255;

/** A source that notes its reads, and a sink that checks what comes. */
function ends() {
  const reads: { offset: number; length: number }[] = [];
  const memory = new Set<ArrayBufferLike>();
  const source = {
    sizeBytes: SIZE,
    read: () => Promise.reject(new Error("readInto is to be used")),
    async readInto(offset: number, target: Uint8Array) {
      reads.push({ offset, length: target.byteLength });
      memory.add(target.buffer);
      for (let i = 0; i < target.byteLength; i++) target[i] = byteAt(offset + i);
    },
  };
  let written = 0;
  let wrong = 0;
  const readsAtWrites: number[] = [];
  const sink = {
    async write(chunk: Uint8Array) {
      readsAtWrites.push(reads.length);
      await new Promise((resolve) => setImmediate(resolve));
      for (let i = 0; i < chunk.byteLength; i++) if (chunk[i] !== byteAt(written + i)) wrong++;
      written += chunk.byteLength;
    },
  };
  return { source, sink, reads, memory, readsAtWrites, result: () => ({ written, wrong }) };
}

test("reads 8 MiB at a time into two buffers, the next while one is written", async () => {
  const { source, sink, reads, memory, readsAtWrites, result } = ends();
  await copySource(source, sink);
  expect(result()).toEqual({ written: SIZE, wrong: 0 });
  expect(reads).toEqual([
    { offset: 0, length: 8 * MIB },
    { offset: 8 * MIB, length: 8 * MIB },
    { offset: 16 * MIB, length: SIZE - 16 * MIB },
  ]);
  expect(memory.size).toBe(2);
  expect(readsAtWrites).toEqual([2, 3, 3]);
});

test("a sink that fails ends the copy once the read under way is over", async () => {
  const { source, reads } = ends();
  let isReading = false;
  const slow = {
    ...source,
    async readInto(offset: number, target: Uint8Array) {
      isReading = true;
      await source.readInto(offset, target);
      await new Promise((resolve) => setImmediate(resolve));
      isReading = false;
    },
  };
  const full = { write: () => Promise.reject(new Error("the disk is full")) };
  await expect(copySource(slow, full)).rejects.toThrow("the disk is full");
  expect(isReading).toBe(false);
  expect(reads).toHaveLength(2);
});

test("an empty source gives nothing", async () => {
  const pieces: number[] = [];
  const source = { sizeBytes: 0, read: async () => new Uint8Array(0) };
  await copySource(source, { write: async ({ byteLength }) => void pieces.push(byteLength) });
  expect(pieces).toEqual([]);
});
