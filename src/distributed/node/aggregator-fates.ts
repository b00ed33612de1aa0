// The ledger of the newest version with the fates of deltas that it refused later: one small commit, without weights, so
// that a node whose deltas are all refused learns why even if nobody else sends anything.

import { LEDGER_PATH } from "../protocol/ledger-text.js";
import type { FatesPlan } from "../protocol/master-contract.js";
import type { RepoOperation, Transport } from "../transports/contract.js";
import { encodeVersionRecord, VERSION_RECORD_PATH, type VersionRecord } from "../wire/version-record.js";
import { commitChecked } from "./aggregator-commit.js";
import { BehindError } from "./aggregator-publish.js";
import { extraOf, isSameOwner, type RecordFacts } from "./aggregator-record.js";
import { ledgerDocument } from "./aggregator-repository.js";
import { fencedError, type LiveRun } from "./aggregator-run.js";
import { type Surroundings, smallContent } from "./aggregator-surroundings.js";

export interface FatesContext {
  readonly transport: Transport;
  readonly surroundings: Surroundings;
  readonly random?: (() => number) | undefined;
  readonly signal?: AbortSignal | undefined;
}

/**
 * The run with the new ledger; version and weights stay.
 * @throws AggregatorError `fenced`; BehindError; TransportError, after which the fates may have been published.
 */
export async function publishFates(
  { transport, surroundings, random, signal }: FatesContext,
  run: LiveRun,
  plan: FatesPlan,
): Promise<LiveRun> {
  const { hasher, clock } = surroundings;
  const ledgerText = ledgerDocument(plan.ledger, hasher);
  const facts: RecordFacts = { ...run.head.facts, ledgerSha256: ledgerText.sha256 };
  const { record: before } = run.head;
  const record: VersionRecord = { ...before, extra: extraOf(facts, before.extra) };
  const operations: RepoOperation[] = [
    { kind: "put", path: LEDGER_PATH, content: smallContent(hasher, ledgerText.text) },
    { kind: "put", path: VERSION_RECORD_PATH, content: smallContent(hasher, encodeVersionRecord(record)) },
  ];
  const message = `speedtronic: what became of ${plan.decided.length} deltas after version ${plan.outerStep}`;
  const revision = await commitChecked(
    transport,
    clock,
    {
      parent: run.head.revision,
      random,
      build: (parent) => ({ parent, message, operations }),
      look: (found) => {
        if (found === undefined || !isSameOwner(found.facts.owner, run.owner))
          throw fencedError(transport, found, run.owner);
        if (found.record.outerStep !== plan.outerStep)
          throw new BehindError(`version ${found.record.outerStep} is in the repository already`);
        return found.facts.ledgerSha256 === ledgerText.sha256 ? "done" : "again";
      },
    },
    signal,
  );
  return { ...run, head: { revision, record, facts }, ledger: plan.ledger };
}
