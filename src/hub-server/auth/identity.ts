// Who a request comes from, and what that may do. Repositories that may not be read look like missing ones.

import { HubError, repoNotFound } from "../errors.js";
import { formatRepoId, type RepoId } from "../repo-id.js";
import type { Repository } from "../store/repository.js";

export type Role = "read" | "write";

export interface Identity {
  /** Author of commits, and the namespace of a repository that is created without one. */
  readonly name: string;
  /** Absent: nobody in particular, who may read what is public. */
  readonly role?: Role;
  /** Patterns of `NAMESPACE/NAME`, in which `*` stands for any run of characters. */
  readonly repos: readonly string[];
}

export const anonymous: Identity = { name: "anonymous", repos: [] };

/** Everyone on a server without tokens, which only this machine can reach. */
export const localOwner: Identity = { name: "local", role: "write", repos: ["*"] };

export function covers(identity: Identity, id: RepoId): boolean {
  const name = formatRepoId(id);
  return identity.repos.some((pattern) => matches(pattern, name));
}

/** Throws HubError 404 if the repository is private and the caller may not know of it. */
export function requireRead(identity: Identity, repo: Repository): void {
  if (repo.info.isPrivate && !covers(identity, repo.info.id)) throw repoNotFound(repo.name);
}

/** Throws HubError 401 or 403 unless the caller may change some repository: before its words are read. */
export function requireWriter(identity: Identity, what = "a repository"): void {
  if (identity.role === undefined) {
    throw new HubError(401, "InvalidCredentials", `changing ${what} needs a token`, {
      headers: { "WWW-Authenticate": 'Bearer realm="hub"' },
    });
  }
  if (identity.role !== "write") {
    throw new HubError(
      403,
      "Forbidden",
      `the token of ${identity.name} may only read; changing ${what} needs role write`,
    );
  }
}

/** Throws HubError 401 or 403 unless the caller may change repositories of this name. */
export function requireWrite(identity: Identity, id: RepoId): void {
  const name = formatRepoId(id);
  requireWriter(identity, name);
  if (!covers(identity, id)) {
    throw new HubError(403, "Forbidden", `the token of ${identity.name} does not cover ${name}`);
  }
}

/** Linear in both lengths for each `*`: no regular expression is made from a pattern. */
function matches(pattern: string, text: string): boolean {
  const [first = "", ...rest] = pattern.split("*");
  if (!text.startsWith(first)) return false;
  if (rest.length === 0) return text === pattern;
  const last = rest.pop()!;
  let at = first.length;
  for (const piece of rest) {
    const found = text.indexOf(piece, at);
    if (found < 0) return false;
    at = found + piece.length;
  }
  return text.length - last.length >= at && text.endsWith(last);
}
