// Sending files: which way each should come, and the commit.

import { badRequest, HubError } from "../errors.js";
import { bodyChunks, isObject, readJson } from "../http/body.js";
import type { RepoCall, Route } from "../http/call.js";
import { splitRevision } from "../http/query.js";
import type { HubLimits } from "../limits.js";
import { contentPath } from "../repo-id.js";
import { checkRepoPath } from "../repo-path.js";
import { commitRequest } from "./commit-request.js";

const MAX_PREUPLOAD_FILES = 1000;

/**
 * The answer has no `oid`, by which the Python client would skip what is unchanged: it would then report success
 * without a commit, whatever the parent.
 */
async function preupload(call: RepoCall): Promise<Response> {
  refusePullRequest(call);
  const { c, repo, hub, tail } = call;
  const branch = splitRevision(tail).revision;
  await repo.resolve(branch);
  const { files } = await readJson(call);
  if (!Array.isArray(files)) throw badRequest("the body has no files");
  if (files.length > MAX_PREUPLOAD_FILES)
    throw badRequest(`more than ${MAX_PREUPLOAD_FILES} files in one question`);
  const fitsInline = inlineBudget(c.req.header("user-agent"), hub.limits);
  return c.json({
    files: files.map((file: unknown) => {
      const { path, size } = isObject(file) ? file : {};
      if (typeof size !== "number" || !Number.isSafeInteger(size) || size < 0) {
        throw badRequest("a file has no size in bytes");
      }
      const checkedPath = checkRepoPath(path);
      return {
        path: checkedPath,
        uploadMode: fitsInline(checkedPath, size) ? "regular" : "lfs",
        shouldIgnore: false,
      };
    }),
  });
}

/** On the Hub they are LFS files of any size; base64 inside a commit costs client and server several copies. */
const TENSOR_FILE = /\.(safetensors|bin|pt|pth)$/;
const MAX_INLINE_TENSOR_BYTES = 1 << 18;

/**
 * Decides file by file. The Python client from 1.20 on, if `hf_xet` is installed (it does not say so), hands every
 * file that is not regular to a Xet service, which does not exist here; so from it as much as possible comes inside
 * the commit. Empty files are always regular: LFS cannot send nothing.
 */
function inlineBudget(
  userAgent: string | undefined,
  limits: HubLimits,
): (path: string, sizeBytes: number) => boolean {
  const isXet = mayInsistOnXet(userAgent ?? "");
  let leftBytes = limits.maxCommitBytes;
  return (path, sizeBytes) => {
    const most = TENSOR_FILE.test(path) ? MAX_INLINE_TENSOR_BYTES : limits.lfsThresholdBytes;
    const mostPerFile = isXet ? limits.maxInlineFileBytes : Math.min(most, limits.lfsThresholdBytes);
    const asSentBytes = Math.ceil(sizeBytes / 3) * 4 + 4096;
    if (sizeBytes > 0 && (sizeBytes > mostPerFile || asSentBytes > leftBytes)) return false;
    leftBytes -= asSentBytes;
    return true;
  };
}

function mayInsistOnXet(userAgent: string): boolean {
  const version = /\bhf_hub\/([0-9]+)\.([0-9]+)/.exec(userAgent);
  if (version === null) return false;
  const [major, minor] = [Number(version[1]), Number(version[2])];
  return major > 1 || (major === 1 && minor >= 20);
}

async function commit(call: RepoCall): Promise<Response> {
  refusePullRequest(call);
  const { c, repo, hub, base, tail } = call;
  const made = await commitRequest(
    call,
    splitRevision(tail).revision,
    bodyChunks(call, hub.limits.maxCommitBytes),
  );
  return c.json({
    success: true,
    commitOid: made.id,
    commitUrl: `${base}${contentPath(repo.info.id)}/commit/${made.id}`,
    hookOutput: "",
  });
}

function refusePullRequest({ c }: RepoCall): void {
  if (c.req.query("create_pr") === "1")
    throw badRequest("pull requests are not supported; commit to a branch");
}

function refuseXet(): never {
  throw new HubError(
    404,
    "NotSupported",
    "this hub has no Xet storage, and the file is too large to come inside a commit: set HF_HUB_DISABLE_XET=1 before " +
      "huggingface_hub is imported, and it is uploaded in the ordinary way",
  );
}

export const uploadRoutes: readonly Route[] = [
  { method: "POST", path: "{api}/preupload/*", access: "write", handle: preupload },
  { method: "POST", path: "{api}/commit/*", access: "write", handle: commit },
  { method: "GET", path: "{api}/xet-write-token/*", access: "write", handle: refuseXet },
  { method: "GET", path: "{api}/xet-read-token/*", access: "read", handle: refuseXet },
];
