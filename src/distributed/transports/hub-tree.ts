// Listings of a hub: what its answers say about files, and where the next page is.

import type { RepoFile } from "./contract.js";
import { TransportError } from "./errors.js";
import { isPlainPath, staysInside } from "./paths.js";

/**
 * Files of one page of a listing. Folders are left out, and so are names that no connector takes (with a backslash, say):
 * whoever puts such a file there must not stop all others. A path that leads out of the repository is `corrupt`.
 */
export function toRepoFiles(page: unknown, doing: string): RepoFile[] {
  if (!Array.isArray(page)) throw new TransportError("corrupt", `${doing}: the answer is not a list`);
  return page.flatMap((item: unknown) => {
    const { type, path, size, oid, lfs } = (item ?? {}) as Record<string, unknown>;
    if (type === "directory") return [];
    const large = lfs as { oid?: unknown; size?: unknown } | null | undefined;
    const sizeBytes = large?.size ?? size;
    const contentId = large?.oid ?? oid;
    if (typeof path === "string" && !staysInside(path)) {
      const shown = JSON.stringify(path.slice(0, 120));
      throw new TransportError(
        "corrupt",
        `${doing}: the hub lists ${shown}, which leads out of the repository`,
      );
    }
    if (typeof path === "string" && isSize(sizeBytes) && typeof contentId === "string")
      return isPlainPath(path) ? [{ path, sizeBytes, contentId }] : [];
    throw new TransportError(
      "corrupt",
      `${doing}: an entry lacks its path, size or oid: ${JSON.stringify(item)?.slice(0, 120)}`,
    );
  });
}

/** When the commits of one page of the history were made, milliseconds since 1970. */
export function toCommitTimes(page: unknown, doing: string): number[] {
  if (!Array.isArray(page)) throw new TransportError("corrupt", `${doing}: the answer is not a list`);
  return page.map((item: unknown) => {
    const { date } = (item ?? {}) as Record<string, unknown>;
    const time = typeof date === "string" ? Date.parse(date) : Number.NaN;
    if (Number.isFinite(time)) return time;
    throw new TransportError(
      "corrupt",
      `${doing}: a commit has no date: ${JSON.stringify(item)?.slice(0, 120)}`,
    );
  });
}

/** From a `Link` header; the address may be relative. */
export function nextPage(link: string | null, base: string): string | undefined {
  const target = /<([^>]+)>\s*;\s*rel="?next"?/.exec(link ?? "")?.[1];
  return target !== undefined && URL.canParse(target, base) ? new URL(target, base).href : undefined;
}

function isSize(value: unknown): value is number {
  return typeof value === "number" && Number.isSafeInteger(value) && value >= 0;
}
