// The doctor's look at the repository of a run: does it answer, may this node write, and do its commits fit the budget?
// Changes nothing there: the commit that it tries has a parent that no repository has.

import { constants } from "node:fs";
import { access } from "node:fs/promises";
import type { SpeedtronicConfig } from "../../config/schema.js";
import type { CallOptions, FileContent, Transport } from "../../distributed/transports/contract.js";
import { TransportError, type TransportProblem } from "../../distributed/transports/errors.js";
import type { Findings } from "./finding.js";

const actions: Readonly<Record<TransportProblem, string>> = {
  denied: "set HF_TOKEN or distributed.token to a token that may write there",
  not_found: "check distributed.repo_id, or make the repository with speedtronic init",
  unavailable: "check the network and distributed.endpoint (or HF_ENDPOINT)",
  throttled: "wait, then try again",
  conflict: "try again",
  ambiguous: "try again",
  invalid: "check distributed.repo_id and distributed.endpoint",
  corrupt: "check distributed.endpoint: what answers there is no hub",
};

/** @param stepS seconds of an update, where they are known */
export async function checkRepository(
  { distributed }: SpeedtronicConfig,
  transport: Transport,
  stepS: number | undefined,
  findings: Findings,
  options: CallOptions = {},
): Promise<string> {
  const { title } = transport;
  try {
    await transport.head(options);
  } catch (error) {
    report(error, title, "it cannot be read", findings);
    return "not readable";
  }
  try {
    await tryToWrite(distributed.repo_id ?? "", transport, options);
  } catch (error) {
    report(error, title, "it can be read, but not written", findings);
  }
  const perHour = distributed.commits_per_hour;
  if (stepS === undefined || distributed.role !== "worker")
    return `${title} answers; at most ${perHour} commits an hour`;
  const expected = 3600 / (distributed.inner_steps * stepS);
  if (expected > perHour)
    findings.problem(
      "distributed.inner_steps",
      `an update takes ${stepS.toPrecision(2)} s, so ${distributed.inner_steps} make ${Math.round(expected)} commits an hour, more than distributed.commits_per_hour ${perHour}: updates would wait, and be left out`,
      `raise it to at least ${Math.ceil(3600 / (perHour * stepS))}`,
    );
  return `${title} answers; about ${Number(expected.toPrecision(2))} of ${perHour} commits an hour`;
}

function report(error: unknown, where: string, what: string, findings: Findings): void {
  if (error instanceof TransportError) {
    findings.problem(where, `${what}: ${error.message}`, actions[error.problem]);
    return;
  }
  if (!(error instanceof Error && "syscall" in error)) throw error;
  findings.problem(where, `${what}: ${error.message}`, "change the rights of the folder");
}

/** Whoever may write is told that the parent is wrong; whoever may not is turned away before. */
async function tryToWrite(repo: string, transport: Transport, options: CallOptions): Promise<void> {
  if (repo.startsWith("file:")) return access(repo.slice("file:".length), constants.W_OK | constants.X_OK);
  const bytes = new TextEncoder().encode("never written\n");
  const content: FileContent = {
    sizeBytes: bytes.length,
    async *chunks() {
      yield bytes;
    },
  };
  try {
    await transport.commit(
      {
        parent: "0".repeat(40),
        message: "check of write access",
        operations: [{ kind: "put", path: "write-check.txt", content }],
      },
      options,
    );
  } catch (error) {
    if (!(error instanceof TransportError && error.problem === "conflict")) throw error;
  }
}
