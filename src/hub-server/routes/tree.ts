// Listing files: folders page by page, and single paths.

import { badRequest, HubError } from "../errors.js";
import { readJson, readText } from "../http/body.js";
import type { RepoCall, Route } from "../http/call.js";
import { nextPage, queryCursor, queryFlag, queryLimit, splitRevision } from "../http/query.js";
import { checkRepoPath } from "../repo-path.js";
import type { Commit } from "../store/commit-record.js";
import { lfsPointer } from "../store/git-oid.js";
import { findItem, listFolder, type TreeItem } from "../store/tree.js";

const PAGE = 1000;
/** With the last commit of each item, which has to be read from the disk. */
const EXPANDED_PAGE = 100;
const MAX_PATHS = 2000;

async function listTree(call: RepoCall): Promise<Response> {
  const { c, repo, tail } = call;
  const { revision, path } = splitRevision(tail);
  if (path !== "") checkRepoPath(path);
  const commit = await repo.resolve(revision);
  const items = listFolder(commit, path, queryFlag(c.req.query("recursive")));
  if (items === undefined) {
    throw new HubError(
      404,
      "EntryNotFound",
      `${repo.name} has no folder ${JSON.stringify(path)} at ${revision}`,
      {
        headers: { "X-Repo-Commit": commit.id },
      },
    );
  }
  const isExpanded = queryFlag(c.req.query("expand"));
  const limit = queryLimit(c.req.query("limit"), PAGE, isExpanded ? EXPANDED_PAGE : PAGE);
  const cursor = queryCursor(c.req.query("cursor"));
  const start = cursor === undefined ? 0 : items.findIndex((item) => item.path > cursor);
  const page = start < 0 ? [] : items.slice(start, start + limit);
  const hasMore = start >= 0 && start + limit < items.length;
  return c.json(await describe(call, commit, page, isExpanded), 200, {
    "X-Repo-Commit": commit.id,
    ...(hasMore ? nextPage(call, page.at(-1)!.path) : {}),
  });
}

/** Unknown paths are left out of the answer. The Python client sends a form, the JavaScript client JSON. */
async function listPaths(call: RepoCall): Promise<Response> {
  const { c, repo, tail } = call;
  const commit = await repo.resolve(splitRevision(tail).revision);
  const isForm = /^application\/x-www-form-urlencoded\b/i.test(c.req.header("content-type") ?? "");
  const { paths, isExpanded } = isForm ? parseForm(await readText(call)) : parseBody(await readJson(call));
  if (paths.length > MAX_PATHS) throw badRequest(`more than ${MAX_PATHS} paths in one question`);
  const items = paths
    .map((path) => findItem(commit, checkRepoPath(path)))
    .filter((item): item is TreeItem => item !== undefined);
  return c.json(await describe(call, commit, items, isExpanded), 200, { "X-Repo-Commit": commit.id });
}

function parseForm(text: string): { paths: readonly string[]; isExpanded: boolean } {
  const form = new URLSearchParams(text);
  return { paths: form.getAll("paths"), isExpanded: queryFlag(form.get("expand") ?? undefined) };
}

function parseBody({ paths, expand }: Record<string, unknown>): {
  paths: readonly string[];
  isExpanded: boolean;
} {
  const list = typeof paths === "string" ? [paths] : paths;
  if (!Array.isArray(list) || !list.every((path) => typeof path === "string")) {
    throw badRequest("the body has no paths");
  }
  return { paths: list, isExpanded: expand === true };
}

async function describe(
  { repo }: RepoCall,
  commit: Commit,
  items: readonly TreeItem[],
  isExpanded: boolean,
): Promise<object[]> {
  const described: object[] = [];
  for (const item of items) {
    const fields =
      item.kind === "file"
        ? fileFields(item)
        : { type: "directory", path: item.path, oid: item.oid, size: 0 };
    if (!isExpanded) {
      described.push(fields);
      continue;
    }
    const last = (await repo.findCommit(await originOf(repo, commit, item))) ?? commit;
    described.push({ ...fields, lastCommit: { id: last.id, title: last.title, date: last.date } });
  }
  return described;
}

function fileFields({ path, entry }: Extract<TreeItem, { kind: "file" }>): object {
  const { sizeBytes, gitOid, sha256, isLfs } = entry;
  const fields = { type: "file", path, size: sizeBytes, oid: gitOid };
  if (!isLfs) return fields;
  const pointerSize = Buffer.byteLength(lfsPointer(sha256, sizeBytes));
  return { ...fields, lfs: { oid: sha256, size: sizeBytes, pointerSize } };
}

/** The commit that last changed an item. Of a directory: the newest that brought one of its files. */
async function originOf(repo: RepoCall["repo"], commit: Commit, item: TreeItem): Promise<string> {
  if (item.kind === "file") return item.entry.since ?? commit.id;
  const origins = new Set<string>();
  for (const [path, { since }] of commit.files) {
    if (path.startsWith(`${item.path}/`)) origins.add(since ?? commit.id);
  }
  let newest: Commit | undefined;
  for (const id of origins) {
    const candidate = await repo.findCommit(id);
    if (candidate !== undefined && candidate.height >= (newest?.height ?? -1)) newest = candidate;
  }
  return newest?.id ?? commit.id;
}

export const treeRoutes: readonly Route[] = [
  { method: "GET", path: "{api}/tree/*", access: "read", handle: listTree },
  { method: "POST", path: "{api}/paths-info/*", access: "read", handle: listPaths },
];
