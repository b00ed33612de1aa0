// How much a client may send. Every limit has a default that suits a lab, and every excess is answered with 413
// and leaves nothing on the disk.

export interface HubLimits {
  /** Largest file that is uploaded on its own (LFS), in bytes. */
  readonly maxFileBytes: number;
  /** Largest file that may come inside a commit, in bytes of content. */
  readonly maxInlineFileBytes: number;
  /** Largest commit request, in bytes as sent (base64 takes 4/3 of the content). */
  readonly maxCommitBytes: number;
  /** Most operations in one commit. */
  readonly maxCommitOperations: number;
  /** Most files in one revision. */
  readonly maxRepoFiles: number;
  /** Largest other request with a JSON or form body. */
  readonly maxJsonBytes: number;
  /** The same for who may not write: such a question names paths at most. */
  readonly maxReaderJsonBytes: number;
  /** Files above this are listed as LFS files, and clients that negotiate upload them on their own. */
  readonly lfsThresholdBytes: number;
  /** A body without a single new byte for this long is given up. There is no limit on the whole time. */
  readonly stallTimeoutMs: number;
  /** How long an upload address is valid, and how long a content without a commit is safe from a clean-up. */
  readonly uploadUrlLifetimeMs: number;
}

const MiB = 2 ** 20;
const GiB = 2 ** 30;

export const defaultHubLimits: HubLimits = {
  maxFileBytes: 50 * GiB,
  maxInlineFileBytes: GiB,
  maxCommitBytes: 2 * GiB,
  maxCommitOperations: 10_000,
  maxRepoFiles: 100_000,
  maxJsonBytes: 16 * MiB,
  maxReaderJsonBytes: 4 * MiB,
  lfsThresholdBytes: 10 * MiB,
  stallTimeoutMs: 60_000,
  uploadUrlLifetimeMs: 3_600_000,
};
