// The identifiers that git would give: of a regular file, of an LFS pointer. The clients compare them with their
// own and use them as names in their caches; the store itself finds content by SHA-256.

import { createHash, type Hash } from "node:crypto";

/** SHA-1 that has taken git's blob header for `sizeBytes` of content and now wants the content. */
export function startGitBlobHash(sizeBytes: number): Hash {
  return createHash("sha1").update(`blob ${sizeBytes}\0`);
}

/** The text that stands for an LFS file in git (git-lfs specification, version 1). */
export function lfsPointer(sha256: string, sizeBytes: number): string {
  return `version https://git-lfs.github.com/spec/v1\noid sha256:${sha256}\nsize ${sizeBytes}\n`;
}

export function lfsPointerOid(sha256: string, sizeBytes: number): string {
  const pointer = lfsPointer(sha256, sizeBytes);
  return startGitBlobHash(Buffer.byteLength(pointer)).update(pointer).digest("hex");
}
