// How many commits an hour each node of a run allows itself, as the configuration in the run's repository says.

import type { CallOptions, Transport } from "../../distributed/transports/contract.js";
import { TransportError } from "../../distributed/transports/errors.js";
import { DEFAULT_COMMITS_PER_HOUR } from "../../distributed/transports/hub-budget.js";
import { CONFIG_PATH, parseSharedConfig } from "./run-files.js";

export interface RunBudget {
  readonly commitsPerHour: number;
  /** Whether the run does not say. A node's own configuration may say otherwise all the same. */
  readonly isDefault: boolean;
}

const MAX_FILE_BYTES = 2 ** 20;
const unsaid: RunBudget = { commitsPerHour: DEFAULT_COMMITS_PER_HOUR, isDefault: true };

/** @throws TransportError. A file that cannot be understood says nothing. */
export async function readCommitBudget(
  transport: Transport,
  revision: string,
  options: CallOptions = {},
): Promise<RunBudget> {
  try {
    const bytes = await transport.read(revision, CONFIG_PATH, MAX_FILE_BYTES, options);
    if (bytes === undefined) return unsaid;
    const { source } = parseSharedConfig(new TextDecoder().decode(bytes), CONFIG_PATH);
    const value = source.entries.get("distributed.commits_per_hour")?.value;
    return Number.isSafeInteger(value) && (value as number) >= 1
      ? { commitsPerHour: value as number, isDefault: false }
      : unsaid;
  } catch (error) {
    if (error instanceof TransportError) throw error;
    return unsaid;
  }
}
