// The past: branches, and the commits of one of them.

import { readJson } from "../http/body.js";
import type { RepoCall, Route } from "../http/call.js";
import { nextPage, queryCursor, queryLimit, splitRevision } from "../http/query.js";
import type { Commit } from "../store/commit-record.js";

const PAGE = 100;

async function listRefs({ c, repo }: RepoCall): Promise<Response> {
  const branches = await repo.branches();
  return c.json({
    branches: branches.map(({ name, commitId }) => ({
      name,
      ref: `refs/heads/${name}`,
      targetCommit: commitId,
    })),
    converts: [],
    tags: [],
  });
}

async function listCommits(call: RepoCall): Promise<Response> {
  const { c, repo, tail } = call;
  const cursor = queryCursor(c.req.query("cursor"));
  const start = await repo.resolve(cursor ?? splitRevision(tail).revision);
  const limit = queryLimit(c.req.query("limit"), PAGE, PAGE);
  const page: Commit[] = [];
  for await (const commit of repo.history(start)) {
    page.push(commit);
    if (page.length === limit) break;
  }
  const next = page.at(-1)?.parent ?? null;
  return c.json(page.map(describe), 200, {
    "X-Total-Count": String(start.height + 1),
    ...(next === null ? {} : nextPage(call, next)),
  });
}

/** The operator's way to free the disk: deleting a file alone does not, since older commits still have it. */
async function squash(call: RepoCall): Promise<Response> {
  const { c, repo, hub, identity, tail } = call;
  const { message } = await readJson(call);
  const title =
    typeof message === "string" && message !== "" ? message.slice(0, 500) : "Super-squash history";
  await repo.squash(tail.join("/"), title, identity.name, hub.limits.uploadUrlLifetimeMs);
  return c.json({});
}

function describe({ id, title, description, date, author }: Commit): object {
  return { id, title, message: description, date, authors: [{ user: author, avatar: "" }] };
}

export const historyRoutes: readonly Route[] = [
  { method: "GET", path: "{api}/refs", access: "read", handle: listRefs },
  { method: "GET", path: "{api}/commits/*", access: "read", handle: listCommits },
  { method: "POST", path: "{api}/super-squash/*", access: "write", handle: squash },
];
