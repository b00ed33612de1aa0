// The repository in a folder: the contract, and what only it promises.

import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { TransportError } from "../../../src/distributed/transports/errors.js";
import { FolderTransport } from "../../../src/distributed/transports/folder.node.js";
import { TREE_EVERY } from "../../../src/distributed/transports/folder-record.js";
import { FolderStore } from "../../../src/distributed/transports/folder-store.node.js";
import { contentOf, put, remove } from "./content.js";
import { describeTransport, problemOf } from "./contract-suite.js";

const base = mkdtempSync(join(tmpdir(), "folder-transport-"));
const opened: FolderTransport[] = [];
let count = 0;
afterAll(async () => {
  for (const transport of opened) await transport.close();
  rmSync(base, { recursive: true, force: true });
});

const newRoot = () => join(base, `repository ${count++}`);

function connect(root: string, options: { keepCommits?: number; keepMs?: number } = {}): FolderTransport {
  const transport = new FolderTransport({ root, retention: options });
  opened.push(transport);
  return transport;
}

describeTransport("folder", async () => {
  const root = newRoot();
  return { connect: () => connect(root) };
});

async function start() {
  const root = newRoot();
  const transport = connect(root);
  await transport.create();
  const empty = await transport.head();
  const head = await transport.commit({
    parent: empty,
    message: "a file",
    operations: [put("dir/a.txt", "twelve bytes")],
  });
  const record = join(root, "commits", "000000000002.json");
  return { root, transport, empty, head, record };
}

/** The error that `work` rejects with. */
async function errorOf(work: Promise<unknown>): Promise<TransportError> {
  const error = await work.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  if (error instanceof TransportError) return error;
  throw new Error(`no TransportError but ${String(error)}`);
}

const blobsOf = (root: string) =>
  readdirSync(join(root, "blobs"), { recursive: true, encoding: "utf8" })
    .filter((name) => name.includes("."))
    .map((name) => join(root, "blobs", name));

/** Makes a file older than any clock granularity. */
function age(path: string): void {
  const time = Date.now() / 1000 - 60;
  utimesSync(path, time, time);
}

test("a folder with other files is refused and stays as it is", async () => {
  const root = newRoot();
  mkdirSync(root);
  writeFileSync(join(root, "thesis.tex"), "text");
  const error = await errorOf(connect(root).create());
  expect(error.problem).toBe("invalid");
  expect(error.message).toContain(`${root} holds other files ("thesis.tex")`);
  expect(readdirSync(root)).toEqual(["thesis.tex"]);
  expect(await problemOf(connect(root).head())).toBe("not_found");
});

test("a file in place of the folder, and a marker of another program, are named", async () => {
  const file = newRoot();
  writeFileSync(file, "a file");
  expect(await problemOf(connect(file).create())).toBe("invalid");
  expect(await problemOf(connect(file).head())).toBe("invalid");
  const root = newRoot();
  mkdirSync(root);
  writeFileSync(join(root, "repository.json"), '{"name":"something else"}');
  const error = await errorOf(connect(root).head());
  expect([error.problem, error.message]).toEqual([
    "corrupt",
    `${join(root, "repository.json")} is damaged or of another program: restore the folder from a copy or name a new one`,
  ]);
  writeFileSync(join(root, "repository.json"), '{"format":"speedtronic folder repository","version":2}');
  const newer = await errorOf(connect(root).head());
  expect([newer.problem, newer.message]).toEqual([
    "invalid",
    `${root} was made by a newer speedtronic (version 2 of its form): update this one`,
  ]);
});

test("security: links inside a repository are not followed", async () => {
  const outside = newRoot();
  mkdirSync(outside);
  writeFileSync(join(outside, "secret"), "twelve bytes");
  const { root, head, record } = await start();
  const [blob = ""] = blobsOf(root);
  rmSync(blob);
  symlinkSync(join(outside, "secret"), blob);
  const read = await errorOf(connect(root).read(head, "dir/a.txt", 100));
  expect([read.problem, read.message.includes("a link, which is not followed")]).toEqual(["invalid", true]);
  expect(await problemOf(connect(root).open(head, "dir/a.txt"))).toBe("invalid");

  const other = await start();
  renameSync(other.record, join(outside, "record"));
  symlinkSync(join(outside, "record"), other.record);
  expect(await problemOf(connect(other.root).list(other.head, ""))).toBe("invalid");
  expect(existsSync(record)).toBe(true);

  const third = await start();
  renameSync(join(third.root, "blobs"), join(outside, "blobs"));
  symlinkSync(join(outside, "blobs"), join(third.root, "blobs"));
  const folder = await errorOf(connect(third.root).head());
  expect([folder.problem, folder.message.includes("blobs is not a folder of its own")]).toEqual([
    "invalid",
    true,
  ]);
  expect(await problemOf(connect(third.root).create())).toBe("invalid");
});

test("a damaged record is named, with what to do", async () => {
  const { root, head, record } = await start();
  truncateSync(record, 20);
  const cut = await errorOf(connect(root).list(head, ""));
  expect(cut.problem).toBe("corrupt");
  expect(cut.message).toContain(
    `${record} is damaged (restore the folder from a copy): it is no commit record`,
  );
  writeFileSync(record, "{}");
  expect((await errorOf(connect(root).list(head, ""))).message).toContain("fields are missing");
  // A whole record that is another one: the folder was replaced.
  const other = await start();
  writeFileSync(record, readFileSync(other.record));
  const replaced = await errorOf(connect(root).list(head, ""));
  expect(replaced.problem).toBe("not_found");
  expect(replaced.message).toContain(`another commit than ${head} in its place`);
});

test("security: a record whose paths lead out of the repository is refused", async () => {
  const { root, record } = await start();
  writeFileSync(record, readFileSync(record, "utf8").replace("dir/a.txt", "../a.txt"));
  const reader = connect(root);
  const error = await errorOf(reader.list(await reader.head(), ""));
  expect(error.problem).toBe("corrupt");
  expect(error.message).toContain('"../a.txt" is not a plain path');
});

test("a content that is missing, cut or changed is corrupt, and says which file it is", async () => {
  const { root, head } = await start();
  const [blob = ""] = blobsOf(root);
  writeFileSync(blob, "TWELVE BYTES");
  const changed = await errorOf(connect(root).read(head, "dir/a.txt", 100));
  expect([changed.problem, changed.message.includes("its bytes have another hash")]).toEqual([
    "corrupt",
    true,
  ]);
  truncateSync(blob, 5);
  const cut = await errorOf(connect(root).open(head, "dir/a.txt"));
  expect([cut.problem, cut.message.includes(`${blob} has 5 bytes instead of 12`)]).toEqual(["corrupt", true]);
  rmSync(blob);
  const missing = await errorOf(connect(root).read(head, "dir/a.txt", 100));
  expect([missing.problem, missing.message.includes(`${blob} is missing`)]).toEqual(["corrupt", true]);
  expect(missing.details).toEqual({ path: "dir/a.txt" });
});

test("a repository that lost a folder says which one", async () => {
  const { root } = await start();
  rmSync(join(root, "commits"), { recursive: true });
  const error = await errorOf(connect(root).head());
  expect([error.problem, error.message.includes("commits is missing")]).toEqual(["corrupt", true]);
});

test("a content that was taken for a leftover makes the commit one to be tried again", async () => {
  const { root, transport, head } = await start();
  const content = {
    sizeBytes: 2,
    async *chunks() {
      yield new TextEncoder().encode("b");
      for (const name of readdirSync(join(root, "tmp"))) rmSync(join(root, "tmp", name));
      yield new TextEncoder().encode("b");
    },
  };
  const commit = (one: ReturnType<typeof contentOf>) =>
    transport.commit({
      parent: head,
      message: "late",
      operations: [{ kind: "put", path: "b.txt", content: one }],
    });
  const error = await errorOf(commit(content));
  expect([error.problem, error.isTransient]).toEqual(["unavailable", true]);
  expect(error.message).toContain("taken for leftovers; try again");
  expect(await transport.head()).toBe(head);
  expect(await commit(contentOf("bb"))).toBe(await transport.head());
});

test("a temporary that another moved already is there, and a repository that is gone is not found", async () => {
  const { root } = await start();
  const store = new FolderStore(root);
  await store.write(["tmp", "x"], (write) => write(Uint8Array.of(1)));
  await store.move(["tmp", "x"], ["blobs", "aa", "x"]);
  await store.move(["tmp", "x"], ["blobs", "aa", "x"]);
  expect(await problemOf(store.move(["tmp", "x"], ["blobs", "aa", "y"]))).toBe("unavailable");
  rmSync(join(root, "tmp"), { recursive: true });
  expect(await problemOf(store.move(["tmp", "x"], ["blobs", "aa", "y"]))).toBe("not_found");
});

test("files that took too long to write make no commit", async () => {
  const root = newRoot();
  let now = 0;
  const transport = new FolderTransport({ root, retention: { keepMs: 1000 }, now: () => now });
  opened.push(transport);
  await transport.create();
  const parent = await transport.head();
  const content = {
    sizeBytes: 1,
    async *chunks() {
      now += 600;
      yield Uint8Array.of(1);
    },
  };
  const request = { parent, message: "slow", operations: [{ kind: "put", path: "a", content }] as const };
  const error = await errorOf(transport.commit(request));
  expect([error.problem, error.message.includes("took longer than 500 ms")]).toEqual(["unavailable", true]);
  expect(await transport.head()).toBe(parent);
  expect([blobsOf(root), readdirSync(join(root, "tmp"))]).toEqual([[], []]);
});

test("contents of a commit that lost the race are used by the next try, and gone after close", async () => {
  const { root, transport, head } = await start();
  let reads = 0;
  const content = {
    sizeBytes: 1,
    async *chunks() {
      reads++;
      if (reads === 1)
        await connect(root).commit({ parent: head, message: "first", operations: [put("b.txt", "b")] });
      yield Uint8Array.of(1);
    },
  };
  const operations = [{ kind: "put", path: "c.bin", content }] as const;
  const commit = (parent: string) => transport.commit({ parent, message: "second", operations });
  expect(await problemOf(commit(head))).toBe("conflict");
  await commit(await transport.head());
  expect(reads).toBe(1);
  expect(blobsOf(root)).toHaveLength(3);
  reads = 0;
  const again = { parent: head, message: "third", operations: [{ ...operations[0], path: "d.bin" }] };
  expect(await problemOf(transport.commit(again))).toBe("conflict");
  await transport.close();
  expect(blobsOf(root)).toHaveLength(3);
});

test("collect keeps what kept commits name and clears away the rest", async () => {
  const root = newRoot();
  const writer = connect(root);
  await writer.create();
  const revisions = [await writer.head()];
  const commit = async (i: number) => {
    const operations = [put("latest.txt", `${i}`), ...(i === 0 ? [put("old.txt", "old")] : [])];
    if (i === 1) operations.push(remove("old.txt"));
    const parent = revisions.at(-1) ?? "";
    revisions.push(await writer.commit({ parent, message: `${i}`, operations }));
  };
  for (let i = 0; i < TREE_EVERY + 20; i++) await commit(i);
  writeFileSync(join(root, "tmp", "blob-left"), "left");
  const stray = join(root, "blobs", "aa", `${"a".repeat(64)}.${"0".repeat(16)}`);
  mkdirSync(join(root, "blobs", "aa"), { recursive: true });
  writeFileSync(stray, "stray");

  // All is young: nothing goes.
  expect(await connect(root, { keepCommits: 1, keepMs: 3_600_000 }).collect()).toEqual({
    records: 0,
    blobs: 0,
  });
  expect([existsSync(stray), existsSync(join(root, "tmp", "blob-left"))]).toEqual([true, true]);

  for (const path of [stray, join(root, "tmp", "blob-left"), ...blobsOf(root)]) age(path);
  for (const name of readdirSync(join(root, "commits"))) age(join(root, "commits", name));
  const before = blobsOf(root).length;
  const collector = connect(root, { keepCommits: 1, keepMs: 0 });
  const { records, blobs } = await collector.collect();
  // The newest whole tree is the last record that can be the first.
  expect(records).toBe(TREE_EVERY - 1);
  expect(readdirSync(join(root, "tmp"))).toEqual([]);
  expect(existsSync(stray)).toBe(false);
  expect(blobsOf(root)).toHaveLength(before - blobs);

  const reader = connect(root);
  const kept = revisions.slice(TREE_EVERY - 1);
  for (const [at, revision] of kept.entries()) {
    const bytes = await reader.read(revision, "latest.txt", 10);
    expect(new TextDecoder().decode(bytes)).toBe(`${at + TREE_EVERY - 2}`);
  }
  // One content for each kept commit and nothing else.
  expect(blobsOf(root)).toHaveLength(kept.length);
  const gone = await errorOf(reader.read(revisions[5] ?? "", "latest.txt", 10));
  expect([gone.problem, gone.message.includes("or no longer: read the head again")]).toEqual([
    "not_found",
    true,
  ]);
  // Who knew an old head only finds the new one; who commits on it loses.
  expect(await reader.head({ known: revisions[5] })).toBe(revisions.at(-1));
  const late = { parent: revisions[5] ?? "", message: "late", operations: [put("x", "x")] };
  expect(await problemOf(reader.commit(late))).toBe("conflict");
  // The same again finds nothing to do.
  expect(await collector.collect()).toEqual({ records: 0, blobs: 0 });
  await commit(99);
  expect(await reader.head()).toBe(revisions.at(-1));
});

test("an opened file outlives its collection", async () => {
  const { root, transport, head } = await start();
  const source = await transport.open(head, "dir/a.txt");
  for (const blob of blobsOf(root)) rmSync(blob);
  expect(new TextDecoder().decode(await source.read(7, 5))).toBe("bytes");
  await source.close?.();
  expect(await problemOf(source.read(7, 5))).toBe("unavailable");
});
