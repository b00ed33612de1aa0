import { readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { openDocuments } from "../../../src/data/sources/open-documents.js";
import type { SourceFile } from "../../../src/data/sources/source-file.js";
import { openCached } from "../../../src/interchange/hub-datasets/cached-file.node.js";
import {
  filesAtPath,
  parseDatasetAddress,
  trainingFiles,
} from "../../../src/interchange/hub-datasets/dataset-address.js";
import { HubDatasets } from "../../../src/interchange/hub-datasets/hub-datasets.node.js";
import { DataError } from "../../../src/util/errors.js";
import { documentsOf, textsOf } from "../../data/sources/corpus.js";
import { ALICE, openHub, READER, scratch, type TestHub, writeTokens } from "../../hub-server/harness.js";

const endpoint = "http://hub.test";
const documents = documentsOf(200, 7, 200);
const lines = documents.map((text) => JSON.stringify({ text })).join("\n");

interface Asked {
  readonly path: string;
  readonly range: string | null;
  readonly authorization: string | null;
}

/** A hub with the dataset `lab/words`, and what was asked of it. */
async function openDataset(isPrivate = false) {
  const hub = await openHub(isPrivate ? { tokenFile: writeTokens(scratch()) } : {});
  const token = isPrivate ? ALICE : undefined;
  await hub.create("lab/words", { type: "dataset", isPrivate, ...(token === undefined ? {} : { token }) });
  await commit(
    hub,
    { "data/train-00000.jsonl": lines, "data/test-00000.jsonl": "{}", "README.md": "# Words" },
    token,
  );
  const asked: Asked[] = [];
  const failures: ((asked: Asked) => boolean)[] = [];
  const ask: typeof fetch = async (input, init) => {
    const url = new URL(String(input));
    const headers = new Headers(init?.headers);
    const one = {
      path: url.pathname,
      range: headers.get("range"),
      authorization: headers.get("authorization"),
    };
    asked.push(one);
    if (failures.some((fails) => fails(one))) throw new TypeError("fetch failed");
    return hub.server.app.request(`${url.pathname}${url.search}`, init as RequestInit);
  };
  return { hub, asked, failures, fetch: ask };
}

async function commit(hub: TestHub, files: Record<string, string>, token?: string): Promise<void> {
  const header = { key: "header", value: { summary: "data" } };
  const changes = Object.entries(files).map(([path, text]) => ({
    key: "file",
    value: { path, content: Buffer.from(text).toString("base64"), encoding: "base64" },
  }));
  const body = [header, ...changes].map((line) => JSON.stringify(line)).join("\n");
  const answer = await hub.post("/api/datasets/lab/words/commit/main", body, token);
  expect([answer.status, answer.text]).toEqual([200, expect.any(String)]);
}

function datasets(fetch: typeof globalThis.fetch, directory: string, token?: string): HubDatasets {
  const retry = { attempts: 2, sleep: async () => {} };
  return new HubDatasets({ endpoint, token, fetch, directory, retry, pieceBytes: 70_000 });
}

async function contentOf(file: SourceFile): Promise<string> {
  const open = await file.open();
  const bytes = await open.read(0, open.sizeBytes);
  await open.close();
  return Buffer.from(bytes).toString();
}

describe("a dataset of a hub", () => {
  it("gives the documents of its training split", async () => {
    const { fetch } = await openDataset();
    const source = await openDocuments({
      specs: [
        {
          paths: ["hf://datasets/lab/words"],
          format: "auto",
          textField: "text",
          template: null,
          separator: null,
        },
      ],
      badRecordLimit: 0,
      remote: datasets(fetch, scratch()),
    });
    expect(await textsOf(source)).toEqual(documents);
  });

  it("is fetched once, by range, and read from the cache after that", async () => {
    const { fetch, asked } = await openDataset();
    const directory = scratch();
    const [file] = await datasets(fetch, directory).list("hf://datasets/lab/words");
    expect(await contentOf(file!)).toBe(lines);
    const ranges = asked.filter(({ path }) => path.includes("/resolve/"));
    expect(ranges.length).toBeGreaterThanOrEqual(Math.ceil(lines.length / 70_000));
    expect(ranges.every(({ range }) => range !== null)).toBe(true);

    asked.length = 0;
    const [again] = await datasets(fetch, directory).list("hf://datasets/lab/words");
    expect(await contentOf(again!)).toBe(lines);
    // Only what the branch points to now.
    expect(asked.map(({ path }) => path)).toEqual(["/api/datasets/lab/words/revision/main"]);
  });

  it("goes on with the piece at which a reading broke off", async () => {
    const { fetch, asked, failures } = await openDataset();
    const directory = scratch();
    failures.push(({ range }) => Number(/bytes=(\d+)/.exec(range ?? "")?.[1] ?? 0) >= 140_000);
    const [file] = await datasets(fetch, directory).list("hf://datasets/lab/words");
    await expect(contentOf(file!)).rejects.toThrow(
      /lab\/words .* cannot be read: .*What arrived is kept; run again/s,
    );
    failures.length = 0;
    asked.length = 0;
    const [again] = await datasets(fetch, directory).list("hf://datasets/lab/words");
    expect(await contentOf(again!)).toBe(lines);
    const starts = asked.flatMap(({ range }) => Number(/bytes=(\d+)/.exec(range ?? "")?.[1] ?? Number.NaN));
    // The first request of an opened file is for its beginning; the pieces that were kept are not asked for.
    expect(starts.filter((start) => start > 0 && start < 140_000)).toEqual([]);
  });

  it("is read at the commit that its branch had, whatever is added meanwhile", async () => {
    const { hub, fetch } = await openDataset();
    const [file] = await datasets(fetch, scratch()).list("hf://datasets/lab/words/data/train-*");
    await commit(hub, { "data/train-00000.jsonl": '{"text": "other"}' });
    expect(await contentOf(file!)).toBe(lines);
  });

  it("gets the token, and is refused with advice without one", async () => {
    const { fetch, asked } = await openDataset(true);
    const [file] = await datasets(fetch, scratch(), READER).list("hf://datasets/lab/words");
    expect(await contentOf(file!)).toBe(lines);
    expect(asked.every(({ authorization }) => authorization === `Bearer ${READER}`)).toBe(true);
    const refused = datasets(fetch, scratch()).list("hf://datasets/lab/words");
    await expect(refused).rejects.toThrow(/lab\/words .* needs HF_TOKEN/s);
    await expect(refused).rejects.toBeInstanceOf(DataError);
  });

  it("says what is there when nothing matches", async () => {
    const { fetch } = await openDataset();
    const failed = datasets(fetch, scratch()).list("hf://datasets/lab/words/*.parquet");
    await expect(failed).rejects.toThrow(
      /nothing at "\*\.parquet"; there are .*README\.md, data\/test-00000\.jsonl/,
    );
  });
});

describe("the files of an address", () => {
  const files = (...paths: string[]) => paths.map((path) => ({ path }));
  const pathsOf = (found: readonly { readonly path: string }[]) => found.map(({ path }) => path);

  it("are parsed with revision and path", () => {
    expect(parseDatasetAddress("hf://datasets/a/b")).toEqual({
      repo: "a/b",
      revision: "main",
      path: undefined,
    });
    expect(parseDatasetAddress("hf://datasets/a/b@refs%2Fconvert%2Fparquet/default/*.parquet")).toEqual({
      repo: "a/b",
      revision: "refs/convert/parquet",
      path: "default/*.parquet",
    });
    for (const bad of ["hf://a/b", "hf://datasets/a", "hf://datasets/../b", "hf://datasets/a/-b"])
      expect(() => parseDatasetAddress(bad)).toThrow(DataError);
  });

  it("are those of the training split and of one format", () => {
    expect(
      pathsOf(
        trainingFiles(files("data/train-0.parquet", "data/test-0.parquet", "train.jsonl", "README.md")),
      ),
    ).toEqual(["data/train-0.parquet"]);
    expect(
      pathsOf(trainingFiles(files("a.jsonl.gz", "validation/a.jsonl", "notes.txt", "latest.jsonl"))),
    ).toEqual(["a.jsonl.gz", "latest.jsonl"]);
    expect(trainingFiles(files("image.png", ".hidden/train.txt"))).toEqual([]);
  });

  it("may be a file, a folder or a pattern", () => {
    const there = files("a/x.txt", "a/b/y.txt", "a/read.me", "c.txt");
    expect(pathsOf(filesAtPath(there, "a/x.txt"))).toEqual(["a/x.txt"]);
    expect(pathsOf(filesAtPath(there, "a/"))).toEqual(["a/x.txt", "a/b/y.txt"]);
    expect(pathsOf(filesAtPath(there, "**/*.txt"))).toEqual(["a/x.txt", "a/b/y.txt", "c.txt"]);
  });
});

describe("a cached file", () => {
  it("that arrived damaged is removed and named", async () => {
    const directory = join(scratch(), "files");
    const open = openCached({
      name: "hf://datasets/lab/words/x",
      sizeBytes: 5,
      contentId: "0".repeat(64),
      directory,
      pieceBytes: 2,
      fetcher: async () => ({ read: async (_, length) => new Uint8Array(length) }),
    });
    await expect(open.read(0, 5)).rejects.toThrow(/words\/x arrived damaged/);
    expect(() => readdirSync(directory)).toThrow();
    rmSync(directory, { recursive: true, force: true });
  });
});
