// Which paths a repository takes, whatever it is made of, and what makes a commit request one that cannot be carried
// out anywhere. One rule for all connectors: what works in a test on memory works on a hub.

import type { RepoOperation } from "./contract.js";
import { TransportError } from "./errors.js";

const MAX_PATH_CHARS = 1024;

/** Whether no segment is empty, "." or "..": such a path stays below where it begins. */
export function staysInside(path: string): boolean {
  return path.split("/").every((segment) => segment !== "" && segment !== "." && segment !== "..");
}

/** Whether it is a plain relative path with "/". */
export function isPlainPath(path: string): boolean {
  return path.length <= MAX_PATH_CHARS && !/[\\\p{Cc}\p{Cs}]/u.test(path) && staysInside(path);
}

/** Throws TransportError `invalid` for what is not a plain relative path. */
export function checkPath(path: string): void {
  if (isPlainPath(path)) return;
  const shown = JSON.stringify(path.slice(0, 120));
  throw new TransportError("invalid", `${shown} is not a plain path such as global/latest.safetensors`, {
    path,
  });
}

/** Throws TransportError `invalid` for a bad path, for one that comes twice, and for a size that is none. */
export function checkOperations(operations: readonly RepoOperation[]): void {
  const seen = new Set<string>();
  for (const operation of operations) {
    const { path } = operation;
    checkPath(path);
    if (seen.has(path))
      throw new TransportError("invalid", `${path}: one commit must not name a file twice`, { path });
    seen.add(path);
    const size = operation.kind === "put" ? operation.content.sizeBytes : 0;
    if (!Number.isSafeInteger(size) || size < 0)
      throw new TransportError("invalid", `${path}: ${size} is not a size in bytes`, { path });
  }
}

/** Throws TransportError `invalid` if `path` would be a file and a folder at once. */
export function checkPlace(path: string, hasFile: (path: string) => boolean): void {
  for (let at = path.indexOf("/"); at >= 0; at = path.indexOf("/", at + 1)) {
    const parent = path.slice(0, at);
    if (!hasFile(parent)) continue;
    throw new TransportError("invalid", `${path}: ${parent} is a file, so that nothing can be in it`, {
      path,
    });
  }
}
