// Names of repositories: their grammar, their addresses, and the folder each has on the disk.

import { badRequest } from "./errors.js";

export type RepoType = "model" | "dataset";

export interface RepoId {
  readonly type: RepoType;
  readonly namespace: string;
  readonly name: string;
}

export const repoTypes: readonly RepoType[] = ["model", "dataset"];

/** First segments of other addresses: a namespace with such a name could not be reached. */
const reserved = new Set(["api", "models", "datasets", "spaces", "kernels", "buckets", "_lfs", "resolve"]);
const part = /^[A-Za-z0-9_](?:[A-Za-z0-9._-]*[A-Za-z0-9_])?$/;

/** Throws HubError 400 for a name outside the Hub's grammar. */
export function parseRepoId(type: RepoType, namespace: string, name: string): RepoId {
  const id = `${namespace}/${name}`;
  for (const text of [namespace, name]) {
    if (!part.test(text) || /--|\.\./.test(text) || text.toLowerCase().endsWith(".git")) {
      throw badRequest(
        `${JSON.stringify(id.slice(0, 200))} is not a repository name: both parts are letters, digits, '.', '_' and '-', ` +
          "do not begin or end with '.' or '-', hold neither '..' nor '--', and do not end in '.git'",
      );
    }
  }
  if (id.length > 96)
    throw badRequest(`the repository name ${id.slice(0, 96)}… is longer than 96 characters`);
  if (reserved.has(namespace.toLowerCase())) throw badRequest(`the namespace ${namespace} is reserved`);
  return { type, namespace, name };
}

export function formatRepoId({ namespace, name }: RepoId): string {
  return `${namespace}/${name}`;
}

/** Distinguishes types; used for signatures, logs and caches. */
export function repoKey(id: RepoId): string {
  return `${id.type}s/${formatRepoId(id)}`;
}

/** Where people and content addresses find it, below the endpoint; models have no prefix. */
export function contentPath(id: RepoId): string {
  return id.type === "model" ? `/${formatRepoId(id)}` : `/${repoKey(id)}`;
}

/**
 * Relative folder. Upper case is written as `!` and the small letter, so that two names which differ in case do
 * not meet on a file system that ignores it.
 */
export function repoFolder({ type, namespace, name }: RepoId): readonly string[] {
  const fold = (text: string) => text.replaceAll(/[A-Z]/g, (letter) => `!${letter.toLowerCase()}`);
  return [`${type}s`, fold(namespace), fold(name)];
}
