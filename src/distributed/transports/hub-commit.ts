// One commit: through the Hub's own client, which hashes, uploads large files (through Xet where there is one) and writes
// the commit request, or by requests of our own when all hashes are known and there is no Xet.

import type { CommitOperation } from "@huggingface/hub";
import type { CallOptions, CommitRequest, FileContent, RepoOperation } from "./contract.js";
import { TransportError } from "./errors.js";
import { contentBlob } from "./hub-blob.js";
import { errorFromNetwork } from "./hub-errors.js";
import type { HubHttp } from "./hub-http.js";
import { commitKnownContents, isKnownCommit } from "./hub-known-commit.js";

/** A Blob with the bytes of a file on this machine, or undefined where there are no files. */
export type BlobOf = (content: FileContent) => Promise<Blob | undefined>;

export interface HubCommitTarget {
  readonly http: HubHttp;
  /** `org/name`. */
  readonly repo: string;
  readonly branch: string;
  readonly title: string;
  readonly token: string | undefined;
  readonly useXet: boolean;
  readonly blobOf: BlobOf | undefined;
}

/** Rejects with TransportError or the signal's reason; `ambiguous` only after the commit request was begun. */
export async function commitToHub(
  target: HubCommitTarget,
  request: CommitRequest,
  { signal }: CallOptions,
): Promise<string> {
  if (!target.useXet && isKnownCommit(request)) return commitKnownContents(target, request, { signal });
  const facts = { doing: `committing to ${target.title}` };
  const [title = "", ...rest] = request.message.split("\n");
  const description = rest.join("\n").trim();
  let isSent = false;
  // The client never takes its listener off, and a node's signal lives as long as the node.
  const ending = new AbortController();
  const end = () => ending.abort(signal?.reason);
  signal?.addEventListener("abort", end, { once: true });
  try {
    const operations = await Promise.all(request.operations.map((one) => toClient(one, target.blobOf)));
    // Loaded with the first commit: who only reads does not need it.
    const { commit } = await import("@huggingface/hub");
    signal?.throwIfAborted();
    const output = await commit({
      repo: { type: "model", name: target.repo },
      branch: target.branch,
      parentCommit: request.parent,
      title,
      ...(description === "" ? {} : { description }),
      operations,
      hubUrl: target.http.endpoint,
      ...(target.token === undefined ? {} : { accessToken: target.token }),
      useXet: target.useXet,
      abortSignal: ending.signal,
      fetch: target.http.clientFetch(facts, signal, () => {
        isSent = true;
      }),
    });
    const oid: unknown = output?.commit.oid;
    if (typeof oid === "string" && /^[0-9a-f]{40,64}$/.test(oid)) return oid;
    throw new Error("the answer names no commit");
  } catch (error) {
    if (signal?.aborted === true) throw signal.reason;
    if (error instanceof TransportError) throw error;
    if (isSent) {
      const reason = error instanceof Error ? error.message.slice(0, 200) : "unknown failure";
      throw new TransportError(
        "ambiguous",
        `${facts.doing}: the hub's answer cannot be read (${reason}); the commit may have been made all the same`,
        { cause: error },
      );
    }
    throw errorFromNetwork(error, facts);
  } finally {
    signal?.removeEventListener("abort", end);
  }
}

async function toClient(operation: RepoOperation, blobOf: BlobOf | undefined): Promise<CommitOperation> {
  const { path } = operation;
  if (operation.kind === "delete") return { operation: "delete", path };
  const content = (await blobOf?.(operation.content)) ?? contentBlob(operation.content, path);
  if (content.size === operation.content.sizeBytes) return { operation: "addOrUpdate", path, content };
  throw new TransportError(
    "invalid",
    `${path}: the file has ${content.size} bytes, not ${operation.content.sizeBytes}`,
    { path },
  );
}
