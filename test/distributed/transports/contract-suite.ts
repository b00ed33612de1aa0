// What transports/contract.ts promises, as tests that run against every connector. Each test gets a repository that
// does not exist yet.

import { describe, expect, test } from "vitest";
import type { FileContent, RepoOperation, Transport } from "../../../src/distributed/transports/contract.js";
import { TransportError } from "../../../src/distributed/transports/errors.js";
import { contentOf, put, remove } from "./content.js";

export { contentOf, put, remove };

export interface Subject {
  /** Another connector to the same repository, as another process would have it. */
  connect(): Transport;
}

const utf8 = (text: string) => new TextEncoder().encode(text);
const text = (bytes: Uint8Array | undefined) => bytes && new TextDecoder().decode(bytes);

/** The kind of the TransportError that `work` rejects with; what else it does is shown as it is. */
export async function problemOf(work: Promise<unknown>): Promise<unknown> {
  try {
    return { fulfilled: await work };
  } catch (error) {
    return error instanceof TransportError ? error.problem : error;
  }
}

export function describeTransport(name: string, make: () => Promise<Subject>): void {
  /** A repository with the given files in its first commit. */
  async function start(...operations: RepoOperation[]) {
    const subject = await make();
    const one = subject.connect();
    await one.create();
    const empty = await one.head();
    const head = operations.length === 0 ? empty : await commit(one, empty, ...operations);
    return { one, other: subject.connect(), empty, head };
  }

  const commit = (transport: Transport, parent: string, ...operations: RepoOperation[]) =>
    transport.commit({ parent, message: "a test", operations });
  const filesOf = async (transport: Transport, revision: string) =>
    (await transport.list(revision, "")).map(({ path }) => path).filter((path) => path !== ".gitattributes");

  describe(name, () => {
    test("create makes the repository once, private", async () => {
      const subject = await make();
      expect(await subject.connect().create()).toEqual({ created: true, isPublic: false });
      expect(await subject.connect().create()).toEqual({ created: false, isPublic: false });
    });

    test("before it is made there is nothing to read, and create says so by making it", async () => {
      const { connect } = await make();
      expect(await problemOf(connect().head())).toBe("not_found");
      await connect().create();
      const head = await connect().head();
      expect(await filesOf(connect(), head)).toEqual([]);
    });

    test("connectors to one repository agree on a key that is safe as a folder name", async () => {
      const { one, other } = await start();
      expect(one.key).toBe(other.key);
      expect(one.key).toMatch(/^[A-Za-z0-9_][A-Za-z0-9._-]{0,199}$/);
    });

    test("the head moves with a commit of anybody and stays without one", async () => {
      const { one, other, empty } = await start();
      expect(await other.head({ known: empty })).toBe(empty);
      const next = await commit(one, empty, put("a.txt", "a"));
      expect(next).not.toBe(empty);
      expect(await other.head({ known: empty })).toBe(next);
      expect(await other.head({ known: next })).toBe(next);
      expect(await other.head()).toBe(next);
    });

    test("files are listed by prefix, sorted by code points", async () => {
      const { other, head } = await start(
        put("nodes/b/delta_2.bin", "22"),
        put("nodes/b/😀.bin", "emoji"),
        put("nodes/b/\uff5e.bin", "tilde"),
        put("nodes/a/delta_10.bin", "1"),
        put("nodesuch/x.bin", "x"),
        put("global/latest.bin", "latest"),
      );
      const list = async (prefix: string) => (await other.list(head, prefix)).map(({ path }) => path);
      expect(await list("nodes/")).toEqual([
        "nodes/a/delta_10.bin",
        "nodes/b/delta_2.bin",
        "nodes/b/\uff5e.bin",
        "nodes/b/😀.bin",
      ]);
      expect(await list("nodes/b/delta_")).toEqual(["nodes/b/delta_2.bin"]);
      expect((await list("nodes")).at(-1)).toBe("nodesuch/x.bin");
      expect(await list("none/")).toEqual([]);
      expect((await other.list(head, "nodes/b/delta_"))[0]?.sizeBytes).toBe(2);
    });

    test("a file's content id changes with its content and with nothing else", async () => {
      const { one, head } = await start(put("a.bin", "same"), put("b.bin", "same"), put("c.bin", "other"));
      const idOf = async (revision: string, path: string) =>
        (await one.list(revision, path)).find((file) => file.path === path)?.contentId;
      const a = await idOf(head, "a.bin");
      expect(a).toMatch(/^[0-9a-f]{40,64}$/);
      expect(await idOf(head, "b.bin")).toBe(a);
      expect(await idOf(head, "c.bin")).not.toBe(a);
      const next = await commit(one, head, put("a.bin", "new"), put("c.bin", "same"));
      expect(await idOf(next, "a.bin")).not.toBe(a);
      expect(await idOf(next, "c.bin")).toBe(a);
    });

    test("read gives a whole file, nothing for a missing one, and refuses a large one", async () => {
      const { other, head, empty } = await start(put("dir/a.txt", "twelve bytes"), put("empty.txt", ""));
      expect(text(await other.read(head, "dir/a.txt", 12))).toBe("twelve bytes");
      expect(text(await other.read(head, "empty.txt", 0))).toBe("");
      expect(await problemOf(other.read(head, "dir/a.txt", 11))).toBe("invalid");
      expect(await other.read(head, "dir/b.txt", 12)).toBeUndefined();
      expect(await other.read(head, "dir", 12)).toBeUndefined();
      expect(await other.read(empty, "dir/a.txt", 12)).toBeUndefined();
      expect(await problemOf(other.read("0".repeat(40), "dir/a.txt", 12))).toBe("not_found");
      expect(await problemOf(other.list("0".repeat(40), ""))).toBe("not_found");
    });

    test("open reads any range exactly", async () => {
      const bytes = new Uint8Array(200_000).map((_, i) => (i * 7 + (i >> 8)) % 251);
      const { other, head } = await start(put("big.bin", bytes), put("empty.bin", ""));
      const source = await other.open(head, "big.bin");
      expect(source.sizeBytes).toBe(bytes.byteLength);
      for (const [offset, length] of [
        [0, 10],
        [65_530, 100],
        [199_990, 10],
        [0, 200_000],
        [200_000, 0],
      ] as const) {
        const part = await source.read(offset, length);
        expect(Buffer.compare(part, bytes.subarray(offset, offset + length))).toBe(0);
      }
      expect(await problemOf(source.read(199_999, 2))).toBe("invalid");
      expect(await problemOf(source.read(-1, 2))).toBe("invalid");
      const target = new Uint8Array(3);
      await (source.readInto?.(100_000, target) ?? source.read(100_000, 3).then((part) => target.set(part)));
      expect([...target]).toEqual([...bytes.subarray(100_000, 100_003)]);
      await source.close?.();
      const empty = await other.open(head, "empty.bin");
      expect([empty.sizeBytes, (await empty.read(0, 0)).byteLength]).toEqual([0, 0]);
      await empty.close?.();
      expect(await problemOf(other.open(head, "none.bin"))).toBe("not_found");
    });

    test("an opened file stays readable after later commits and deletes", async () => {
      const bytes = new Uint8Array(150_000).fill(7);
      const { one, other, head } = await start(put("a.bin", bytes));
      const source = await other.open(head, "a.bin");
      const second = await commit(one, head, put("a.bin", "replaced"));
      await commit(one, second, remove("a.bin"));
      expect(Buffer.compare(await source.read(100_000, 50_000), bytes.subarray(0, 50_000))).toBe(0);
      await source.close?.();
    });

    test("L-61: a revision keeps what it was", async () => {
      const { one, other, head } = await start(put("a.txt", "old"), put("gone.txt", "here"));
      const next = await commit(one, head, put("a.txt", "new"), remove("gone.txt"), put("b.txt", "b"));
      expect(await filesOf(other, head)).toEqual(["a.txt", "gone.txt"]);
      expect(text(await other.read(head, "a.txt", 10))).toBe("old");
      expect(await filesOf(other, next)).toEqual(["a.txt", "b.txt"]);
      expect(text(await other.read(next, "a.txt", 10))).toBe("new");
    });

    test("a commit that cannot be made whole is not made at all", async () => {
      const { one, other, head } = await start(put("a.txt", "a"));
      const broken: RepoOperation = { kind: "put", path: "z.txt", content: contentOf("four", 5) };
      expect(await problemOf(commit(one, head, put("b.txt", "b"), remove("a.txt"), broken))).toBe("invalid");
      const failing: RepoOperation = {
        kind: "put",
        path: "z.txt",
        content: {
          sizeBytes: 4,
          // biome-ignore lint/correctness/useYield: the disk of the caller fails before the first byte.
          async *chunks() {
            throw new TransportError("corrupt", "the caller's file is damaged");
          },
        },
      };
      expect(await problemOf(commit(one, head, put("b.txt", "b"), failing))).toBe("corrupt");
      expect(await other.head()).toBe(head);
      expect(await filesOf(other, head)).toEqual(["a.txt"]);
    });

    test("L-61: a commit on a head that is none any more is a conflict and changes nothing", async () => {
      const { one, other, empty, head } = await start(put("a.txt", "a"));
      expect(await problemOf(commit(other, empty, put("a.txt", "late")))).toBe("conflict");
      expect(await problemOf(commit(other, "0".repeat(40), put("a.txt", "late")))).toBe("conflict");
      expect(await problemOf(commit(other, "main", put("a.txt", "late")))).toBe("conflict");
      expect(await one.head()).toBe(head);
      expect(text(await one.read(head, "a.txt", 10))).toBe("a");
    });

    test("of commits at the same moment exactly one wins", async () => {
      const { one, other, head } = await start(put("a.txt", "a"));
      const results = await Promise.all(
        [one, other, one, other].map((transport, i) =>
          problemOf(commit(transport, head, put(`n${i}.txt`, `${i}`))),
        ),
      );
      const won = results.flatMap((result, i) => (typeof result === "string" ? [] : [i]));
      expect(won).toHaveLength(1);
      expect(results.filter((result) => result === "conflict")).toHaveLength(3);
      const last = await other.head();
      expect(await filesOf(one, last)).toEqual(["a.txt", `n${won[0]}.txt`]);
    });

    test("deleting what is not there is no error", async () => {
      const { one, head } = await start(put("a.txt", "a"));
      const next = await commit(one, head, remove("none.txt"), remove("no/such.txt"), put("b.txt", "b"));
      expect(await filesOf(one, next)).toEqual(["a.txt", "b.txt"]);
    });

    test("bad paths are refused before anything is done", async () => {
      const { one, head } = await start(put("a.txt", "a"));
      const bad = ["", "/a.txt", "../a.txt", "a//b", "a/./b", "a/", "a\\b", "a\0b", "x/../../y", "\ud800"];
      for (const path of bad) {
        expect(await problemOf(commit(one, head, put(path, "x"))), JSON.stringify(path)).toBe("invalid");
        expect(await problemOf(one.read(head, path, 10)), JSON.stringify(path)).toBe("invalid");
        expect(await problemOf(one.open(head, path)), JSON.stringify(path)).toBe("invalid");
      }
      expect(await problemOf(commit(one, head, put("b.txt", "1"), put("b.txt", "2")))).toBe("invalid");
      expect(await problemOf(commit(one, head, put("b.txt", "1"), remove("b.txt")))).toBe("invalid");
      expect(await one.head()).toBe(head);
    });

    test("unusual but plain paths are kept as they are", async () => {
      const paths = ["a b/100%.txt", "a#b/?.txt", "grün/ß.txt", "-dash", ".hidden/.file", "con.txt"].sort();
      const { other, head } = await start(...paths.map((path) => put(path, path)));
      expect((await filesOf(other, head)).sort()).toEqual(paths);
      for (const path of paths) expect(text(await other.read(head, path, 100))).toBe(path);
    });

    test("an aborted call ends with the reason and does nothing", async () => {
      const { one, head } = await start(put("a.txt", "a"));
      const reason = new Error("enough");
      const signal = AbortSignal.abort(reason);
      const request = { parent: head, message: "late", operations: [put("b.txt", "b")] };
      expect(await problemOf(one.head({ signal }))).toBe(reason);
      expect(await problemOf(one.list(head, "", { signal }))).toBe(reason);
      expect(await problemOf(one.read(head, "a.txt", 10, { signal }))).toBe(reason);
      expect(await problemOf(one.open(head, "a.txt", { signal }))).toBe(reason);
      expect(await problemOf(one.create({ signal }))).toBe(reason);
      expect(await problemOf(one.commit(request, { signal }))).toBe(reason);
      expect(await one.head()).toBe(head);
    });

    test("aborting while the content is read makes no commit", async () => {
      const { one, head } = await start(put("a.txt", "a"));
      const stop = new AbortController();
      const reason = new Error("enough");
      const content: FileContent = {
        sizeBytes: 2,
        async *chunks() {
          yield utf8("b");
          stop.abort(reason);
          yield utf8("b");
        },
      };
      const request = {
        parent: head,
        message: "late",
        operations: [{ kind: "put", path: "b.txt", content }] as const,
      };
      expect(await problemOf(one.commit(request, { signal: stop.signal }))).toBe(reason);
      expect(await one.head()).toBe(head);
    });

    test("a closed connector answers nothing, and the others go on", async () => {
      const { one, other, head } = await start(put("a.txt", "a"));
      await one.close();
      expect(await problemOf(one.head())).toBe("unavailable");
      expect(await problemOf(one.read(head, "a.txt", 10))).toBe("unavailable");
      expect(await problemOf(commit(one, head, put("b.txt", "b")))).toBe("unavailable");
      expect(await other.head()).toBe(head);
    });
  });
}
