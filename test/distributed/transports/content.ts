// Contents and operations of commits in tests. Not about any test runner: child processes use it too.

import type { FileContent, RepoOperation } from "../../../src/distributed/transports/contract.js";

export function contentOf(value: string | Uint8Array, sizeBytes?: number): FileContent {
  const bytes = typeof value === "string" ? new TextEncoder().encode(value) : value;
  return {
    sizeBytes: sizeBytes ?? bytes.byteLength,
    async *chunks() {
      const middle = bytes.byteLength >> 1;
      yield bytes.subarray(0, middle);
      yield bytes.subarray(middle);
    },
  };
}

export const put = (path: string, value: string | Uint8Array): RepoOperation => ({
  kind: "put",
  path,
  content: contentOf(value),
});

export const remove = (path: string): RepoOperation => ({ kind: "delete", path });
