// Which repository `distributed.repo_id` means: `org/name` on the official hub, or on the one that HF_ENDPOINT names;
// `file:PATH`, a folder that all nodes see; `memory:NAME`, within one process (tests, programs that use the library).

import type { SpeedtronicConfig } from "../config/schema.js";
import type { Transport } from "../distributed/transports/contract.js";
import { resolveHub } from "../distributed/transports/endpoint.js";
import { FolderTransport } from "../distributed/transports/folder.node.js";
import { HubTransport } from "../distributed/transports/hub.js";
import { CommitBudget } from "../distributed/transports/hub-budget.js";
import { nodeHub } from "../distributed/transports/hub-fetch.node.js";
import { repoNameProblem } from "../distributed/transports/hub-names.js";
import { MemoryTransport, sharedMemoryRepository } from "../distributed/transports/memory.js";
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
  const { form, rest } = formOf(repo);
  if (form === "file" && rest !== "") return new FolderTransport({ root: rest });
  if (form === "memory" && MEMORY_NAME.test(rest)) return new MemoryTransport(sharedMemoryRepository(rest));
  const problem = problemOf(repo, form);
  if (repo === null || problem !== undefined) {
    throw new ConfigError(
      `distributed.repo_id is ${JSON.stringify(repo)}: ${problem}; name the repository as org/name (on a hub), ` +
        "file:PATH (a folder that all nodes see) or memory:NAME (within one process)",
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
    ...nodeHub,
  });
}

const MEMORY_NAME = /^[A-Za-z0-9._-]{1,64}$/;

/** What stands before a colon, as `file` or `https`; a single letter is a drive's. */
function formOf(repo: string | null): { readonly form: string | undefined; readonly rest: string } {
  const [, form, rest = ""] = /^([A-Za-z][A-Za-z0-9+.-]+):(.*)$/s.exec(repo ?? "") ?? [];
  return { form, rest };
}

function problemOf(repo: string | null, form: string | undefined): string | undefined {
  if (repo === null) return "it is not set";
  if (form === "file") return "the folder is missing";
  if (form === "memory") return 'the name must be 1 to 64 letters, digits, ".", "_" or "-"';
  if (form !== undefined) return `${form}: is no form of repository that is known`;
  return repoNameProblem(repo);
}
