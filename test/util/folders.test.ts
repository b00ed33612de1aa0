// Folders made level by level: on ordinary file systems, and where nothing can be made.

import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { makeFolders } from "../../src/util/folders.node.js";

const root = mkdtempSync(join(tmpdir(), "speedtronic-folders-"));
afterAll(() => rmSync(root, { recursive: true }));

describe("makeFolders", () => {
  it("makes what is missing and names the topmost folder it made", () => {
    expect(makeFolders(join(root, "a", "b", "c"))).toBe(join(root, "a"));
    expect(makeFolders(join(root, "a", "b", "d"))).toBe(join(root, "a", "b", "d"));
    expect(makeFolders(join(root, "a", "b"))).toBeUndefined();
  });

  it("refuses a path through a file, with the system's reason", () => {
    writeFileSync(join(root, "file"), "");
    expect(() => makeFolders(join(root, "file", "below"))).toThrow(/ENOTDIR/);
    expect(() => makeFolders(join(root, "file"))).toThrow(/EEXIST/);
  });

  it.skipIf(!existsSync("/proc/self"))("fails at once where the system has no place for folders", () => {
    expect(() => makeFolders("/proc/speedtronic/runs")).toThrow(/ENOENT/);
  });
});
