// What a repository must be able to do, whatever it is made of: a hub, a folder, memory. A connector does this and
// nothing else; what the files mean is the protocol's affair. One contract suite runs against every implementation.

import type { ByteSource } from "../../formats/safetensors/index.js";

/** A file at one revision. */
export interface RepoFile {
  readonly path: string;
  readonly sizeBytes: number;
  /** Changes when the content does: a hash that the repository itself keeps. Comparable within one repository only. */
  readonly contentId: string;
}

/** Content of a file to be committed. It may be read more than once. */
export interface FileContent {
  readonly sizeBytes: number;
  /** Bytes from the start, in pieces. */
  chunks(): AsyncIterable<Uint8Array>;
  /** Lower-case hex SHA-256 where the caller knows it already. */
  readonly sha256?: string;
  /** Path on this machine of a file with exactly these bytes, for connectors that can take one. */
  readonly localPath?: string;
}

export type RepoOperation =
  | { readonly kind: "put"; readonly path: string; readonly content: FileContent }
  | { readonly kind: "delete"; readonly path: string };

export interface CommitRequest {
  /** The revision that must still be the head. */
  readonly parent: string;
  /** One line, and more lines after an empty one. */
  readonly message: string;
  /** Paths differ from each other. Deleting what is not there is not an error. */
  readonly operations: readonly RepoOperation[];
}

export interface CallOptions {
  /** Aborting it ends the call soon with its reason. */
  readonly signal?: AbortSignal | undefined;
}

/**
 * A repository with one line of commits. Every method rejects with TransportError. Reads name a revision, so that
 * all of them see one state; paths are plain relative ones with "/".
 */
export interface Transport {
  /** For messages: `org/name at https://…`. No secrets. */
  readonly title: string;
  /** Tells repositories apart on this machine; stable, and safe as a folder name. */
  readonly key: string;
  /** Makes the repository, empty and private, unless it is there. Says which of the two, and whether all can read it. */
  create(options?: CallOptions): Promise<{ readonly created: boolean; readonly isPublic: boolean }>;
  /** The newest revision: one request, as cheap as the repository allows when it is still `known`. */
  head(options?: CallOptions & { readonly known?: string | undefined }): Promise<string>;
  /** Files whose path starts with `prefix`, sorted by code points. */
  list(revision: string, prefix: string, options?: CallOptions): Promise<readonly RepoFile[]>;
  /** A whole small file, or undefined if there is none. Refuses files larger than `maxBytes`. */
  read(
    revision: string,
    path: string,
    maxBytes: number,
    options?: CallOptions,
  ): Promise<Uint8Array | undefined>;
  /** A file to read parts of; it stays readable after later commits. Close it. */
  open(revision: string, path: string, options?: CallOptions): Promise<ByteSource>;
  /**
   * All operations or none, in one commit. Rejects with `conflict` when the head is not `parent` any more, with
   * `ambiguous` when it is unknown whether the commit was made: then read the head and look.
   */
  commit(request: CommitRequest, options?: CallOptions): Promise<string>;
  /** Ends what is under way. */
  close(): Promise<void>;
}
