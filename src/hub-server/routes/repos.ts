// Making, describing and deleting repositories.

import { covers, requireRead, requireWrite, requireWriter } from "../auth/identity.js";
import { badRequest, HubError, repoNotFound } from "../errors.js";
import { isObject, readJson } from "../http/body.js";
import type { Call, RepoCall, Route } from "../http/call.js";
import { queryFlag } from "../http/query.js";
import { namesEtag } from "../http/range.js";
import { contentPath, formatRepoId, parseRepoId, type RepoId, type RepoType } from "../repo-id.js";
import type { Commit, FileEntry } from "../store/commit-record.js";
import { lfsPointer } from "../store/git-oid.js";
import type { Repository } from "../store/repository.js";
import { commitRequest } from "./commit-request.js";

async function createRepo(call: Call): Promise<Response> {
  const { c, hub, identity, base } = call;
  requireWriter(identity);
  const body = await readJson(call);
  const id = repoOf(body, identity.name);
  requireWrite(identity, id);
  const isPrivate = body.visibility === "private" || (body.visibility === undefined && body.private === true);
  const description = { url: `${base}${contentPath(id)}`, id: formatRepoId(id), name: formatRepoId(id) };
  let repo: Repository;
  try {
    repo = await hub.store.create(id, isPrivate, identity.name);
  } catch (error) {
    // The Python client reads `url` from this answer as from the other.
    if (error instanceof HubError && error.status === 409)
      throw new HubError(409, error.errorCode, error.message, { body: description });
    throw error;
  }
  const files = Array.isArray(body.files) ? body.files : [];
  if (files.length > 0) {
    const lines = [
      { key: "header", value: { summary: "initial files" } },
      ...files.map((value) => ({ key: "file", value })),
    ];
    const text = lines.map((line) => JSON.stringify(line)).join("\n");
    try {
      await commitRequest({ ...call, repo }, "main", [Buffer.from(text)]);
    } catch (error) {
      // What was refused must not leave an empty repository behind.
      await hub.store.delete(repo);
      throw error;
    }
  }
  return c.json({ ...description, private: isPrivate });
}

async function deleteRepo(call: Call): Promise<Response> {
  const { c, hub, identity } = call;
  requireWriter(identity);
  const id = repoOf(await readJson(call), identity.name);
  const repo = await hub.store.find(id);
  if (repo === undefined) throw repoNotFound(formatRepoId(id));
  requireRead(identity, repo);
  requireWrite(identity, id);
  await hub.store.delete(repo);
  return c.json({});
}

function repoOf(body: Record<string, unknown>, owner: string): RepoId {
  const type = body.type ?? "model";
  if (type !== "model" && type !== "dataset") {
    throw badRequest(
      `the type ${JSON.stringify(type).slice(0, 40)} is not served here, only model and dataset`,
    );
  }
  if (typeof body.name !== "string") throw badRequest("the body has no name");
  const [namespace, name, ...rest] = body.name.includes("/")
    ? body.name.split("/")
    : [body.organization ?? owner, body.name];
  if (typeof namespace !== "string" || name === undefined || rest.length > 0)
    throw badRequest("the organization is not a string");
  return parseRepoId(type satisfies RepoType, namespace, name);
}

async function describeRepo(call: RepoCall): Promise<Response> {
  const { c, repo, tail } = call;
  const commit = await repo.resolve(tail.length === 0 ? "main" : tail.join("/"));
  // Who watches for new commits asks again and again, mostly for nothing.
  const etag = `"${commit.id}"`;
  const headers = { ETag: etag, "X-Repo-Commit": commit.id, "Cache-Control": "no-cache" };
  if (namesEtag(c.req.header("if-none-match"), etag)) return c.body(null, 304, headers);
  const withBlobs = queryFlag(c.req.query("blobs"));
  const { id, isPrivate, uid, createdAt } = repo.info;
  const description = {
    _id: uid,
    id: repo.name,
    [id.type === "model" ? "modelId" : "datasetId"]: repo.name,
    author: id.namespace,
    sha: commit.id,
    private: isPrivate,
    gated: false,
    disabled: false,
    lastModified: commit.date,
    createdAt,
    downloads: 0,
    likes: 0,
    tags: [],
    siblings: siblings(commit, withBlobs),
  };
  return c.json(description, 200, headers);
}

function siblings(commit: Commit, withBlobs: boolean): object[] {
  return [...commit.files].map(([rfilename, entry]) =>
    withBlobs ? { rfilename, ...blobFields(entry) } : { rfilename },
  );
}

function blobFields({ sizeBytes, gitOid, sha256, isLfs }: FileEntry): object {
  if (!isLfs) return { size: sizeBytes, blobId: gitOid };
  const pointerSize = Buffer.byteLength(lfsPointer(sha256, sizeBytes));
  return { size: sizeBytes, blobId: gitOid, lfs: { size: sizeBytes, sha256, pointerSize } };
}

/** What the caller may see, by name. */
async function listRepos({ c, hub, identity }: Call, type: RepoType): Promise<Response> {
  const author = c.req.query("author");
  const visible = (await hub.store.list()).filter(
    ({ info }) =>
      info.id.type === type &&
      (!info.isPrivate || covers(identity, info.id)) &&
      (author === undefined || info.id.namespace === author),
  );
  return c.json(
    visible.map(({ info, name }) => ({
      _id: info.uid,
      id: name,
      private: info.isPrivate,
      createdAt: info.createdAt,
      downloads: 0,
      likes: 0,
      tags: [],
    })),
  );
}

async function createBranch(call: RepoCall): Promise<Response> {
  const { c, repo, tail } = call;
  const body = await readJson(call);
  if (!isObject(body)) throw badRequest("the body must be a JSON object");
  if (body.emptyBranch === true) throw badRequest("branches without history are not supported");
  const startingPoint = typeof body.startingPoint === "string" ? body.startingPoint : "main";
  await repo.createBranch(tail.join("/"), startingPoint, body.overwrite === true);
  return c.json({});
}

async function deleteBranch({ c, repo, tail }: RepoCall): Promise<Response> {
  await repo.deleteBranch(tail.join("/"));
  return c.json({});
}

export const repoRoutes: readonly Route[] = [
  { method: "POST", path: "/api/repos/create", access: "anyone", handle: createRepo },
  { method: "DELETE", path: "/api/repos/delete", access: "anyone", handle: deleteRepo },
  { method: "GET", path: "/api/models", access: "anyone", handle: (call) => listRepos(call, "model") },
  { method: "GET", path: "/api/datasets", access: "anyone", handle: (call) => listRepos(call, "dataset") },
  { method: "GET", path: "{api}", access: "read", handle: describeRepo },
  { method: "GET", path: "{api}/revision/*", access: "read", handle: describeRepo },
  { method: "POST", path: "{api}/branch/*", access: "write", handle: createBranch },
  { method: "DELETE", path: "{api}/branch/*", access: "write", handle: deleteBranch },
];
