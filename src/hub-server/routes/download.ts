// File contents: whole or a range, with the headers by which the clients name, check and cache them. Never
// compressed, never redirected, nothing that would send a client to a Xet service.

import { open } from "node:fs/promises";
import type { ServerResponse } from "node:http";
import { RESPONSE_ALREADY_SENT } from "@hono/node-server/utils/response";
import { HubError } from "../errors.js";
import type { RepoCall, Route } from "../http/call.js";
import { splitRevision } from "../http/query.js";
import { namesEtag, parseRange } from "../http/range.js";
import { sendFile, streamFile } from "../http/send-file.js";
import { checkRepoPath } from "../repo-path.js";
import type { Commit, FileEntry } from "../store/commit-record.js";
import { lfsPointer } from "../store/git-oid.js";

interface Found {
  readonly commit: Commit;
  readonly entry: FileEntry;
  readonly path: string;
  readonly headers: Record<string, string>;
}

async function locate({ repo, tail }: RepoCall): Promise<Found> {
  const { revision, path } = splitRevision(tail);
  const commit = await repo.resolve(revision);
  const headers: Record<string, string> = { "X-Repo-Commit": commit.id };
  const entry = commit.files.get(checkRepoPath(path));
  if (entry === undefined) {
    throw new HubError(
      404,
      "EntryNotFound",
      `${repo.name} has no file ${JSON.stringify(path)} at ${revision}`,
      {
        headers,
      },
    );
  }
  const isFixed = revision === commit.id;
  const scope = repo.info.isPrivate ? "private" : "public";
  headers["Cache-Control"] = isFixed ? `${scope}, max-age=31536000, immutable` : "no-cache";
  return { commit, entry, path, headers };
}

async function resolve(call: RepoCall): Promise<Response> {
  const { c, repo } = call;
  const { entry, path, headers } = await locate(call);
  const { sizeBytes, sha256, isLfs } = entry;
  const etag = `"${isLfs ? sha256 : entry.gitOid}"`;
  headers.ETag = etag;
  headers["Accept-Ranges"] = "bytes";
  if (isLfs) {
    headers["X-Linked-Etag"] = etag;
    headers["X-Linked-Size"] = String(sizeBytes);
  }
  if (namesEtag(c.req.header("if-none-match"), etag)) return c.body(null, 304, headers);
  headers["Content-Type"] = contentType(path);
  headers["Content-Disposition"] = `inline; filename*=UTF-8''${encodeURIComponent(path.split("/").at(-1)!)}`;
  const ifRange = c.req.header("if-range");
  const range = parseRange(
    ifRange === undefined || ifRange === etag ? c.req.header("range") : undefined,
    sizeBytes,
  );
  const isHead = c.req.method === "HEAD";
  if (range.kind === "unsatisfiable") {
    headers["Content-Range"] = `bytes */${sizeBytes}`;
    // The JavaScript client begins with a range even if the file is empty, and takes 416 for a failure.
    if (sizeBytes === 0) return c.body(null, 206, { ...headers, "Content-Length": "0" });
    throw new HubError(416, "InvalidRequest", `the file has ${sizeBytes} bytes`, { headers });
  }
  const [start, end] = range.kind === "part" ? [range.start, range.end] : [0, sizeBytes];
  headers["Content-Length"] = String(end - start);
  if (range.kind === "part") headers["Content-Range"] = `bytes ${start}-${end - 1}/${sizeBytes}`;
  const status = range.kind === "part" ? 206 : 200;
  if (isHead || start === end) return c.body(null, status, headers);
  const part = { handle: await open(repo.blobs.pathOf(sha256), "r"), start, end };
  const { outgoing } = c.env ?? {};
  if (outgoing === undefined) return c.body(streamFile(part), status, headers);
  const head = c.body(null, status, headers);
  void sendFile(outgoing as ServerResponse, head, part);
  for (const [name, value] of RESPONSE_ALREADY_SENT.headers) head.headers.set(name, value);
  return head;
}

/** As git has it: for an LFS file the pointer. */
async function raw(call: RepoCall): Promise<Response> {
  const { c } = call;
  const { entry, headers } = await locate(call);
  if (!entry.isLfs) return resolve(call);
  const pointer = lfsPointer(entry.sha256, entry.sizeBytes);
  // The frame takes the body away for HEAD.
  return c.body(pointer, 200, {
    ...headers,
    "Content-Type": "text/plain; charset=utf-8",
    "Content-Length": String(Buffer.byteLength(pointer)),
    ETag: `"${entry.gitOid}"`,
  });
}

/** Text may be shown by a browser, and nothing else: a page from a repository must not run here. */
function contentType(path: string): string {
  if (path.endsWith(".json")) return "application/json";
  return /\.(?:md|txt|yaml|yml|csv|jsonl|log)$/.test(path)
    ? "text/plain; charset=utf-8"
    : "application/octet-stream";
}

export const downloadRoutes: readonly Route[] = [
  { method: "GET", path: "{content}/resolve/*", access: "read", handle: resolve },
  { method: "GET", path: "{content}/raw/*", access: "read", handle: raw },
];
