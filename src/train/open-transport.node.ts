// Which repository `distributed.repo_id` means: `org/name` on the official hub, or on the one that HF_ENDPOINT names;
// `file:PATH`, a folder that all nodes see.

import { openAsBlob } from "node:fs";
import type { SpeedtronicConfig } from "../config/schema.js";
import type { Transport } from "../distributed/transports/contract.js";
import { resolveHub } from "../distributed/transports/endpoint.js";
import { FolderTransport } from "../distributed/transports/folder.node.js";
import { HubTransport } from "../distributed/transports/hub.js";
import { CommitBudget } from "../distributed/transports/hub-budget.js";
import { repoNameProblem } from "../distributed/transports/hub-names.js";
import { ConfigError } from "../util/errors.js";

/**
 * Asks nobody yet. `warn` is told why a token that is set will not be sent.
 * @throws ConfigError `distributed.repo_id` for what is no repository's name.
 */
export function openTransport(
  {
    repo_id: repo,
    token: tokenKey,
    endpoint: endpointKey,
    commits_per_hour: perHour,
  }: SpeedtronicConfig["distributed"],
  env: Readonly<Record<string, string | undefined>>,
  warn: (message: string) => void,
): Transport {
  const folder = repo?.startsWith("file:") === true ? repo.slice("file:".length) : "";
  if (folder !== "") return new FolderTransport({ root: folder });
  const problem = repo === null ? "it is not set" : repoNameProblem(repo);
  if (repo === null || problem !== undefined) {
    throw new ConfigError(
      `distributed.repo_id is ${JSON.stringify(repo)}: ${problem}; name the repository as org/name, or as file:PATH`,
      { code: "distributed.repo_id", details: { repo_id: repo } },
    );
  }
  const { endpoint, token, withheld } = resolveHub({ endpointKey, tokenKey: tokenKey?.reveal(), env });
  if (withheld !== undefined) warn(withheld);
  return new HubTransport({
    endpoint,
    repo,
    token,
    budget: new CommitBudget({ perHour }),
    blobOf: async ({ localPath }) => (localPath === undefined ? undefined : openAsBlob(localPath)),
  });
}
