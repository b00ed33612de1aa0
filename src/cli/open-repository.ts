// The repository that a command names on its command line: `org/name` on a hub, or `file:PATH`. Where the hub is, and
// whether a token goes there, is said by HF_ENDPOINT and HF_TOKEN, or by keys of section `distributed`.

import { applyOverrides, type Override } from "../config/overrides.js";
import { resolveConfig } from "../config/resolve.js";
import type { SpeedtronicConfig } from "../config/schema.js";
import type { Transport } from "../distributed/transports/contract.js";
import { TransportError, type TransportProblem } from "../distributed/transports/errors.js";
import { openTransport } from "../train/open-transport.node.js";
import { ConfigError } from "../util/errors.js";
import type { CliContext } from "./context.js";

/** Asks nobody yet. Of `overrides`, those of section `distributed` count. Close the result. */
export function openRepository(
  repo: string,
  context: CliContext,
  overrides: readonly Override[] = [],
): Transport {
  const own = overrides.filter((override) => {
    const path = typeof override === "string" ? override : override.path;
    return /^\s*(?:distributed|hub|diloco)\./.test(path);
  });
  const { distributed } = resolveConfig(
    applyOverrides({}, [...own, { path: "distributed.repo_id", value: repo, option: "<repo>" }]),
  );
  return openConfigured(distributed, context);
}

/** The repository of a configuration. */
export function openConfigured(
  distributed: SpeedtronicConfig["distributed"],
  context: CliContext,
): Transport {
  const repo = distributed.repo_id ?? "";
  if (repo.startsWith("memory:"))
    throw new ConfigError(
      `${repo}: what lies in memory is seen by one process only, and this command is another one than those that train; ` +
        "use file:PATH for a folder, or org/name on a hub",
      { code: "distributed.repo_id" },
    );
  return openTransport(distributed, context.env, (message) =>
    context.err(`speedtronic: warning: ${message}\n`),
  );
}

const ADVICE: Partial<Record<TransportProblem, string>> = {
  unavailable: "check the network and the address of the repository (HF_ENDPOINT for a hub), then try again",
  throttled: "wait, then try again",
  ambiguous: "try again: what was done already is not done twice",
};

/** Closes the repository after `work`, whose failures say what to do about them. */
export async function using<T>(transport: Transport, work: (transport: Transport) => Promise<T>): Promise<T> {
  try {
    return await work(transport);
  } catch (error) {
    const advice = error instanceof TransportError ? ADVICE[error.problem] : undefined;
    if (!(error instanceof TransportError) || advice === undefined) throw error;
    const { problem, message, retryAfterMs } = error;
    throw new TransportError(problem, `${message}; ${advice}`, { retryAfterMs, cause: error });
  } finally {
    await transport.close();
  }
}
