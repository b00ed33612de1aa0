// An ability that some repositories have besides the contract: they tell when commits were made. For reports only;
// nothing that a node does depends on it.

import type { CallOptions, Transport } from "./contract.js";

export interface CommitLog {
  /** Times of commits, milliseconds since 1970, newest first: all since `sinceMs`, at most `limit`. */
  commitTimes(
    options: CallOptions & { readonly sinceMs: number; readonly limit: number },
  ): Promise<readonly number[]>;
}

export function hasCommitLog(transport: Transport): transport is Transport & CommitLog {
  return typeof (transport as Partial<CommitLog>).commitTimes === "function";
}
