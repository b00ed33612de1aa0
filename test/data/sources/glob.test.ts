import { mkdir, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { describe, expect, it } from "vitest";
import { findFiles } from "../../../src/data/sources/find-files.js";
import { isPattern, patternRoot, patternToRegExp } from "../../../src/data/sources/glob.js";
import { DataError } from "../../../src/util/errors.js";
import { temporaryFolder } from "../helpers.js";

const matches = (pattern: string, ...paths: string[]): string[] =>
  paths.filter((path) => patternToRegExp(pattern).test(path));

describe("a pattern", () => {
  it("keeps * and ? within a name", () => {
    expect(matches("a/*.txt", "a/b.txt", "a/.txt", "a/b/c.txt", "a/b.txt.gz", "b.txt")).toEqual(["a/b.txt"]);
    expect(matches("a?.txt", "ab.txt", "a.txt", "abc.txt", "a/.txt")).toEqual(["ab.txt"]);
  });

  it("crosses folders with **", () => {
    expect(matches("**/*.txt", "a.txt", "x/a.txt", "x/y/a.txt", ".git/a.txt")).toEqual([
      "a.txt",
      "x/a.txt",
      "x/y/a.txt",
    ]);
    expect(matches("data/**", "data/a", "data/b/c.txt", "data", "other/a")).toEqual([
      "data/a",
      "data/b/c.txt",
    ]);
  });

  it("chooses with brackets and braces", () => {
    expect(matches("p-[0-3].txt", "p-2.txt", "p-5.txt")).toEqual(["p-2.txt"]);
    expect(matches("p-[!0-3].txt", "p-2.txt", "p-5.txt")).toEqual(["p-5.txt"]);
    expect(matches("{a,b/{c,d}}.txt", "a.txt", "b/c.txt", "b/d.txt", "b.txt")).toEqual([
      "a.txt",
      "b/c.txt",
      "b/d.txt",
    ]);
  });

  it("takes all other signs for themselves", () => {
    expect(matches("a+(b).t^t|$", "a+(b).t^t|$", "aab.t^t")).toEqual(["a+(b).t^t|$"]);
    expect(matches("a{b}.txt", "a{b}.txt", "ab.txt")).toEqual(["a{b}.txt"]);
  });

  it("knows the folder that it begins in", () => {
    expect(["a/b/*.txt", "*.txt", "/x/**/y", "{a,b}/c"].map(patternRoot)).toEqual(["a/b", "", "/x", ""]);
    expect(["a/b.txt", "a*"].map(isPattern)).toEqual([false, true]);
  });
});

describe("finding files", () => {
  async function folderWith(...names: string[]): Promise<string> {
    const folder = await temporaryFolder();
    for (const name of names) {
      await mkdir(dirname(join(folder, name)), { recursive: true });
      await writeFile(join(folder, name), name);
    }
    return folder;
  }
  const namesOf = async (folder: string, pattern: string) =>
    (await findFiles(join(folder, pattern))).map(({ name }) => name.slice(folder.length + 1));

  it("sorts the matches of a pattern by their names", async () => {
    const folder = await folderWith(
      "b.txt",
      "a.txt",
      "sub/a.txt",
      "sub/deep/z.txt",
      "B.txt",
      "c.md",
      ".h.txt",
    );
    expect(await namesOf(folder, "*.txt")).toEqual(["B.txt", "a.txt", "b.txt"]);
    expect(await namesOf(folder, "**/*.txt")).toEqual([
      "B.txt",
      "a.txt",
      "b.txt",
      "sub/a.txt",
      "sub/deep/z.txt",
    ]);
    expect(await namesOf(folder, "*/a.txt")).toEqual(["sub/a.txt"]);
  });

  it("takes a file that is named like a pattern as it is", async () => {
    const folder = await folderWith("a[1].txt", "a1.txt");
    expect(await namesOf(folder, "a[1].txt")).toEqual(["a[1].txt"]);
  });

  it("says what was not found", async () => {
    const folder = await folderWith("a.txt");
    await expect(findFiles(join(folder, "*.jsonl"))).rejects.toThrow(/No file matches ".*\*\.jsonl"/);
    await expect(findFiles(join(folder, "b.txt"))).rejects.toThrow(/b\.txt" does not exist/);
    await expect(findFiles(folder)).rejects.toThrow(/is a folder/);
    await expect(findFiles(folder)).rejects.toBeInstanceOf(DataError);
  });
});
