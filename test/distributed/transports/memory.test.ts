// The repository in memory: the contract, and what only it promises.

import { createHash } from "node:crypto";
import { expect, test } from "vitest";
import { MemoryRepository, MemoryTransport } from "../../../src/distributed/transports/memory.js";
import { sha256Hex } from "../../../src/distributed/transports/sha256.js";
import { describeTransport, put, remove } from "./contract-suite.js";

describeTransport("memory", async () => {
  const repository = new MemoryRepository();
  return { connect: () => new MemoryTransport(repository) };
});

test("the same calls give the same revisions, and another name gives others", async () => {
  const run = async (name: string) => {
    const transport = new MemoryTransport(new MemoryRepository({ name }));
    await transport.create();
    const first = await transport.commit({
      parent: await transport.head(),
      message: "one",
      operations: [put("b", "2"), put("a", "1")],
    });
    return transport.commit({ parent: first, message: "two", operations: [remove("a")] });
  };
  expect(await run("x")).toBe(await run("x"));
  expect(await run("x")).not.toBe(await run("y"));
});

test("what a caller does to its bytes later does not reach the repository", async () => {
  const transport = new MemoryTransport();
  await transport.create();
  const bytes = Uint8Array.of(1, 2, 3);
  const head = await transport.commit({
    parent: await transport.head(),
    message: "one",
    operations: [put("a", bytes)],
  });
  bytes.fill(9);
  (await transport.read(head, "a", 10))?.fill(8);
  const source = await transport.open(head, "a");
  (await source.read(0, 3)).fill(7);
  expect([...((await transport.read(head, "a", 10)) ?? [])]).toEqual([1, 2, 3]);
  expect([...transport.repository.files(head).keys()]).toEqual(["a"]);
});

test("a repository that all can read says so", async () => {
  const transport = new MemoryTransport(new MemoryRepository({ isPublic: true }));
  expect(await transport.create()).toEqual({ created: true, isPublic: true });
});

test("the hash is SHA-256 at every length around a block", () => {
  for (const length of [0, 1, 55, 56, 57, 63, 64, 65, 119, 120, 128, 1000]) {
    const bytes = new Uint8Array(length).map((_, i) => (i * 31 + length) & 255);
    expect(sha256Hex(bytes)).toBe(createHash("sha256").update(bytes).digest("hex"));
  }
  expect(sha256Hex("grün")).toBe(createHash("sha256").update("grün").digest("hex"));
});
