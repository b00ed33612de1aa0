// The unmodified @huggingface/hub against a real server.

import { randomBytes } from "node:crypto";
import {
  checkRepoAccess,
  commit,
  createRepo,
  deleteFile,
  deleteFiles,
  deleteRepo,
  downloadFile,
  fileDownloadInfo,
  fileExists,
  HubApiError,
  listCommits,
  listFiles,
  listModels,
  modelInfo,
  pathsInfo,
  repoExists,
  uploadFile,
  uploadFiles,
  whoAmI,
} from "@huggingface/hub";
import { beforeEach, describe, expect, it } from "vitest";
import { ALICE, BOB, openHub, READER, scratch, type TestHub, writeTokens } from "./harness.js";

const repo = { type: "model", name: "lab/run" } as const;
let hub: TestHub;
let at: { hubUrl: string; accessToken: string };

beforeEach(async () => {
  // What is larger than this goes by LFS.
  hub = await openHub({ tokenFile: writeTokens(scratch()), limits: { lfsThresholdBytes: 100_000 } });
  at = { hubUrl: await hub.server.listen(), accessToken: ALICE };
  await createRepo({ ...at, repo, private: true });
});

const statusOf = (work: Promise<unknown>) =>
  work.then(
    () => 200,
    (error: unknown) => (error instanceof HubApiError ? error.statusCode : error),
  );

async function textOf(path: string): Promise<string | undefined> {
  return (await downloadFile({ ...at, repo, path }))?.text();
}

describe("@huggingface/hub", () => {
  it("knows who it is", async () => {
    expect(await whoAmI(at)).toMatchObject({ type: "user", name: "alice" });
    expect(await statusOf(whoAmI({ ...at, accessToken: `hf_${"x".repeat(30)}` }))).toBe(401);
  });

  it("creates, sees and deletes repositories", async () => {
    expect(await statusOf(createRepo({ ...at, repo }))).toBe(409);
    expect(await repoExists({ ...at, repo })).toBe(true);
    const info = await modelInfo({ ...at, name: "lab/run", additionalFields: ["sha"] });
    expect(info).toMatchObject({
      name: "lab/run",
      private: true,
      sha: expect.stringMatching(/^[0-9a-f]{40}$/),
    });
    const dataset = await createRepo({ ...at, repo: { type: "dataset", name: "lab/data" } });
    expect(dataset).toMatchObject({ repoUrl: `${at.hubUrl}/datasets/lab/data` });
    const names: string[] = [];
    for await (const model of listModels(at)) names.push(model.name);
    expect(names).toEqual(["lab/run"]);
    await deleteRepo({ ...at, repo });
    expect(await repoExists({ ...at, repo })).toBe(false);
  });

  it("sends small and large files, lists them, and gets them back", async () => {
    const large = randomBytes(1_000_000);
    const made = await uploadFiles({
      ...at,
      repo,
      files: [
        { path: "small.json", content: new Blob(['{"a":1}']) },
        { path: "nodes/n/large.bin", content: new Blob([large]) },
        { path: "empty", content: new Blob([]) },
      ],
      commitTitle: "three files",
    });
    expect(made?.commit).toEqual({
      oid: await headOf(),
      url: `${at.hubUrl}/lab/run/commit/${await headOf()}`,
    });
    const listed: [string, string, number][] = [];
    for await (const { path, type, size } of listFiles({ ...at, repo, recursive: true }))
      listed.push([path, type, size]);
    expect(listed).toEqual([
      ["empty", "file", 0],
      ["nodes", "directory", 0],
      ["nodes/n", "directory", 0],
      ["nodes/n/large.bin", "file", 1_000_000],
      ["small.json", "file", 7],
    ]);
    expect(await textOf("small.json")).toBe('{"a":1}');
    expect(await textOf("empty")).toBe("");
    const blob = (await downloadFile({ ...at, repo, path: "nodes/n/large.bin" }))!;
    expect(Buffer.from(await blob.arrayBuffer()).equals(large)).toBe(true);
    const part = await blob.slice(999_990, 1_000_000).arrayBuffer();
    expect(Buffer.from(part).equals(large.subarray(999_990))).toBe(true);
    expect(await fileDownloadInfo({ ...at, repo, path: "nodes/n/large.bin" })).toMatchObject({
      size: 1_000_000,
    });
  });

  it("sends the same large file again without its bytes", async () => {
    const content = new Blob([randomBytes(300_000)]);
    await uploadFile({ ...at, repo, file: { path: "a", content } });
    await uploadFile({ ...at, repo, file: { path: "b", content } });
    const [info] = await pathsInfo({ ...at, repo, paths: ["b", "none"], expand: true });
    expect(info).toMatchObject({ path: "b", lfs: { size: 300_000 }, lastCommit: { title: "Add b" } });
    expect(hub.leftovers()).toEqual([]);
  });

  it("finds and misses files", async () => {
    await uploadFile({ ...at, repo, file: { path: "a b/ü%.txt", content: new Blob(["x"]) } });
    expect(await fileExists({ ...at, repo, path: "none" })).toBe(false);
    expect(await downloadFile({ ...at, repo, path: "none" })).toBeNull();
    expect(await statusOf(downloadFile({ ...at, repo, path: "none", revision: "other" }))).toBe(404);
    const paths: string[] = [];
    for await (const { path } of listFiles({ ...at, repo, recursive: true })) paths.push(path);
    expect(paths).toEqual(["a b", "a b/ü%.txt"]);
  });

  it("goes through all pages", async () => {
    const operations = Array.from({ length: 1100 }, (_, index) => ({
      operation: "addOrUpdate" as const,
      path: `many/${String(index).padStart(4, "0")}`,
      content: new Blob(["x"]),
    }));
    await commit({ ...at, repo, title: "many", operations });
    let count = 0;
    for await (const { type } of listFiles({ ...at, repo, recursive: true })) if (type === "file") count += 1;
    expect(count).toBe(1100);
    const titles: string[] = [];
    for await (const { title } of listCommits({ ...at, repo, batchSize: 1 })) titles.push(title);
    expect(titles).toEqual(["many", "initial commit"]);
  });

  it("is told when the head has moved", async () => {
    const parentCommit = await headOf();
    const add = (text: string) =>
      uploadFile({ ...at, repo, parentCommit, file: { path: "a", content: new Blob([text]) } });
    expect(await statusOf(add("1"))).toBe(200);
    expect(await statusOf(add("2"))).toBe(412);
    expect(await textOf("a")).toBe("1");
  });

  it("deletes files", async () => {
    await uploadFiles({
      ...at,
      repo,
      files: ["a", "b", "c"].map((path) => ({ path, content: new Blob([path]) })),
    });
    await deleteFile({ ...at, repo, path: "a" });
    await deleteFiles({ ...at, repo, paths: ["b"] });
    expect(await fileExists({ ...at, repo, path: "c" })).toBe(true);
    expect(await fileExists({ ...at, repo, path: "a" })).toBe(false);
    expect(await statusOf(deleteFile({ ...at, repo, path: "a" }))).toBe(404);
  });

  it("sees of a private repository only what its token allows", async () => {
    await uploadFile({ ...at, repo, file: { path: "a", content: new Blob(["1"]) } });
    for (const other of [{ hubUrl: at.hubUrl }, { ...at, accessToken: BOB }]) {
      expect(await repoExists({ ...other, repo })).toBe(false);
      expect(await statusOf(checkRepoAccess({ ...other, repo } as never))).toBe(404);
      expect(await statusOf(downloadFile({ ...other, repo, path: "a" }))).toBe(404);
      expect(
        await statusOf(
          uploadFile({ ...other, repo, file: { path: "b", content: new Blob(["1"]) } } as never),
        ),
      ).toBe(404);
    }
    const reader = { ...at, accessToken: READER };
    expect(await (await downloadFile({ ...reader, repo, path: "a" }))?.text()).toBe("1");
    expect(
      await statusOf(uploadFile({ ...reader, repo, file: { path: "b", content: new Blob(["1"]) } })),
    ).toBe(403);
    expect(await repoExists({ ...at, accessToken: `hf_${"x".repeat(30)}`, repo })).toBe(false);
  });
});

async function headOf(): Promise<string> {
  return (await modelInfo({ ...at, name: "lab/run", additionalFields: ["sha"] })).sha;
}
