// Turns a commit request into changes: reads its lines, stages the contents, and hands everything to the repository
// at once. If any line is wrong, nothing of the request remains.

import { badRequest, type HubError, tooLarge } from "../errors.js";
import { isObject } from "../http/body.js";
import type { RepoCall } from "../http/call.js";
import { type CommitLine, readCommitLines } from "../http/commit-lines.js";
import { InlineContent } from "../http/content-sink.js";
import { checkFolderPath, checkRepoPath } from "../repo-path.js";
import type { Change } from "../store/apply.js";
import { gitBlobOid, type SealedFile, type StagedFile, syncSealed } from "../store/blobs.js";
import type { Commit, FileEntry } from "../store/commit-record.js";
import { lfsPointerOid } from "../store/git-oid.js";

interface Header {
  readonly title: string;
  readonly description: string;
  readonly parent?: string;
}

const MAX_TITLE_CHARACTERS = 500;

export async function commitRequest(
  call: RepoCall,
  branch: string,
  chunks: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
): Promise<Commit> {
  const { hub, repo, identity } = call;
  const staged: StagedFile[] = [];
  const openSink = async (): Promise<InlineContent> => {
    const file = await hub.store.stage();
    staged.push(file);
    return new InlineContent(file, hub.limits.maxInlineFileBytes);
  };
  try {
    let header: Header | undefined;
    const changes: Change[] = [];
    const contents: SealedFile[] = [];
    for await (const line of readCommitLines(toAsync(chunks), openSink)) {
      if (header === undefined) {
        header = parseHeader(line);
        continue;
      }
      if (changes.length >= hub.limits.maxCommitOperations) {
        throw tooLarge(`the commit has more than ${hub.limits.maxCommitOperations} operations`);
      }
      const { change, content } = await parseOperation(call, line);
      changes.push(change);
      if (content !== undefined) contents.push(content);
    }
    if (header === undefined) throw badRequest("the commit is empty: its first line must be the header");
    await syncSealed(contents);
    return await repo.commit({ ...header, branch, author: identity.name, changes, contents });
  } finally {
    // A published file has lost this name already.
    await Promise.all(staged.map((file) => file.discard()));
  }
}

function parseHeader({ json, sink }: CommitLine<InlineContent>): Header {
  const value = json.value;
  if (json.key !== "header" || !isObject(value) || sink !== undefined) {
    throw badRequest("the first line of a commit must be its header");
  }
  const { summary, description = "", parentCommit } = value;
  if (typeof summary !== "string" || summary === "") throw badRequest("the commit's header has no summary");
  if (summary.length > MAX_TITLE_CHARACTERS) {
    throw badRequest(`the commit's summary is longer than ${MAX_TITLE_CHARACTERS} characters`);
  }
  if (typeof description !== "string") throw badRequest("the commit's description is not a string");
  if (parentCommit === undefined || parentCommit === null) return { title: summary, description };
  if (typeof parentCommit !== "string" || !/^[0-9a-f]{5,40}$/.test(parentCommit)) {
    throw badRequest("parentCommit must be 5 to 40 hexadecimal digits");
  }
  return { title: summary, description, parent: parentCommit };
}

interface Operation {
  readonly change: Change;
  readonly content?: SealedFile;
}

async function parseOperation(call: RepoCall, line: CommitLine<InlineContent>): Promise<Operation> {
  const { key, value } = line.json;
  if (!isObject(value)) throw badRequest("a line of the commit has no value");
  if (line.sink !== undefined && key !== "file") throw badRequest("only a file line may have a content");
  switch (key) {
    case "file":
      return putInline(call, checkRepoPath(value.path), value.encoding, line.sink);
    case "lfsFile":
      return { change: { kind: "put", path: checkRepoPath(value.path), entry: await lfsEntry(call, value) } };
    case "deletedFile":
      return { change: { kind: "delete", path: checkRepoPath(value.path) } };
    case "deletedFolder":
      return { change: { kind: "delete-folder", path: checkFolderPath(value.path) } };
    default:
      throw badRequest(`a line of the commit has the unknown key ${JSON.stringify(key)?.slice(0, 40)}`);
  }
}

async function putInline(
  { hub }: RepoCall,
  path: string,
  encoding: unknown,
  sink: InlineContent | undefined,
): Promise<Operation> {
  if (sink === undefined) throw badRequest(`${JSON.stringify(path)}: the line has no content`);
  const content = await sink.finish(encoding);
  const { sizeBytes, sha256 } = content.digest;
  const isLfs = sizeBytes > hub.limits.lfsThresholdBytes;
  const gitOid = isLfs ? lfsPointerOid(sha256, sizeBytes) : await gitBlobOid(content.file.path, sizeBytes);
  return { change: { kind: "put", path, entry: { sizeBytes, sha256, gitOid, isLfs } }, content };
}

async function lfsEntry({ repo }: RepoCall, value: Record<string, unknown>): Promise<FileEntry> {
  const { algo = "sha256", oid, size } = value;
  if (algo !== "sha256" || typeof oid !== "string" || !/^[0-9a-f]{64}$/.test(oid)) {
    throw badRequest("an lfsFile line needs algo sha256 and an oid of 64 hexadecimal digits");
  }
  // A copy within the repository comes without its size.
  const sizeBytes = size ?? (await repo.blobs.sizeOf(oid));
  if (sizeBytes === undefined) throw missingContent(oid);
  if (typeof sizeBytes !== "number" || !Number.isSafeInteger(sizeBytes) || sizeBytes < 0) {
    throw badRequest("the size of an lfsFile line is not a whole number");
  }
  return { sizeBytes, sha256: oid, gitOid: lfsPointerOid(oid, sizeBytes), isLfs: true };
}

function missingContent(oid: string): HubError {
  return badRequest(`the repository has no content with sha256 ${oid}; upload it first`);
}

async function* toAsync(
  chunks: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
): AsyncGenerator<Uint8Array> {
  yield* chunks;
}
