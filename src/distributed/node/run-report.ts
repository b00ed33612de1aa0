// How a run stands, from its repository alone: the newest version, who takes part, what waits, what became of what was
// sent. Reads documents and headers, no weights. Works with the run of a Python master as far as that one publishes
// anything: it keeps no ledger, so that fates are unknown there.

import { LEASES_KEY, parseLeases } from "../protocol/lease-record.js";
import { findByContentId, isLongDecided, type Ledger, type LedgerEntry } from "../protocol/ledger.js";
import type { ListedDelta } from "../protocol/master-contract.js";
import { hasCommitLog } from "../transports/commit-log.js";
import type { CallOptions, Transport } from "../transports/contract.js";
import { AggregatorError } from "./aggregator-errors.js";
import type { Ownership } from "./aggregator-record.js";
import { listDeltas, type RunHead, readHistory, readLedger, readRunHead } from "./aggregator-repository.js";
import type { Hasher } from "./aggregator-surroundings.js";
import { HeaderReader } from "./run-report-headers.js";
import { type Member, membersOf, newestPerLife, type ReportedDelta } from "./run-report-members.js";

export type { Member, ReportedDelta };

export interface ReportedVersion {
  readonly outerStep: number;
  /** As the master put it. */
  readonly updatedAt: string;
  /** Undefined for a Python master. */
  readonly master: Ownership | undefined;
  readonly hasLedger: boolean;
  /** Of the round that made it. */
  readonly deltas: number | undefined;
  readonly outerLr: number | undefined;
  readonly outerMomentum: number | undefined;
}

export interface RunReport {
  readonly title: string;
  readonly revision: string;
  /** Undefined before the first one. */
  readonly version: ReportedVersion | undefined;
  readonly members: readonly Member[];
  /** Not decided yet; under a master without a ledger, those made from the newest version. */
  readonly pending: readonly ReportedDelta[];
  /** Newest first. */
  readonly fates: readonly LedgerEntry[];
  /** Commits of all nodes within the last hour; undefined where the repository does not tell. */
  readonly commitsLastHour: number | undefined;
  /** What is odd in the repository, one sentence each. */
  readonly notes: readonly string[];
}

export interface RunReporterOptions {
  readonly transport: Transport;
  readonly hasher: () => Hasher;
  /** Milliseconds since 1970. */
  readonly now: () => number;
}

/** Headers of waiting deltas that are read for one report. */
const MAX_WAITING_READ = 200;
const MAX_COMMITS = 1000;
const HOUR_MS = 3_600_000;

export class RunReporter {
  readonly #options: RunReporterOptions;
  readonly #headers: HeaderReader;
  #last: RunReport | undefined;

  constructor(options: RunReporterOptions) {
    this.#options = options;
    this.#headers = new HeaderReader(options.transport);
  }

  /**
   * The report as of now; the same object as before if nothing was committed since, which costs one request.
   * @throws TransportError; WireError for a version record that cannot be read.
   */
  async read({ signal }: CallOptions = {}): Promise<RunReport> {
    const { transport } = this.#options;
    const revision = await transport.head({ signal, known: this.#last?.revision });
    if (this.#last?.revision === revision) return this.#last;
    this.#last = await this.#report(revision, signal);
    return this.#last;
  }

  async #report(revision: string, signal: AbortSignal | undefined): Promise<RunReport> {
    const { transport } = this.#options;
    const notes: string[] = [];
    const head = await readRunHead(transport, revision, signal);
    const ledger = await this.#ledger(head, notes, signal);
    const listed = await listDeltas(transport, revision, signal, (path, reason) =>
      notes.push(`${path} is no delta: ${reason}`),
    );
    const newest = newestPerLife(listed);
    const undecided = listed.filter((delta) => ledger === undefined || !isDecided(ledger, delta));
    const read = [...new Set([...newest, ...undecided.slice(0, MAX_WAITING_READ)])];
    const headers = await this.#headers.read(revision, read, { signal });
    const report = (delta: ListedDelta): ReportedDelta => {
      const { path, nodeId, number, sizeBytes, contentId } = delta;
      const facts = headers.get(path);
      if (facts === "unreadable") notes.push(`${path} cannot be read as a delta`);
      return {
        path,
        nodeId,
        number,
        sizeBytes,
        facts: facts === "unreadable" ? undefined : facts,
        fate: ledger && findByContentId(ledger, path, contentId),
      };
    };
    const reported = new Map(read.map((delta) => [delta.path, report(delta)]));
    const outerStep = head?.record.outerStep;
    const waits = ({ path }: ListedDelta) => {
      // Without a ledger, what was made from an older version is taken for done.
      const base = reported.get(path)?.facts?.baseOuterStep;
      return ledger !== undefined || outerStep === undefined || (base ?? -1) >= outerStep;
    };
    const waiting = undecided.filter(waits);
    const pending = waiting.map((delta) => reported.get(delta.path) ?? report(delta));
    const shards = shardCounts(head, notes);
    const fates = [...(ledger?.entries ?? [])].reverse();
    return {
      title: transport.title,
      revision,
      version: head && (await this.#version(head, notes, signal)),
      members: membersOf({
        newest: newest.map(({ path }) => reported.get(path)!),
        pending,
        fates,
        shards,
        outerStep,
      }),
      pending,
      fates,
      commitsLastHour: await this.#commitsLastHour(signal),
      notes: [...new Set(notes)],
    };
  }

  async #ledger(
    head: RunHead | undefined,
    notes: string[],
    signal: AbortSignal | undefined,
  ): Promise<Ledger | undefined> {
    if (head?.facts.ledgerSha256 === undefined) return undefined;
    const { transport, hasher } = this.#options;
    return orNote(readLedger(transport, head, hasher, signal), notes);
  }

  async #version(head: RunHead, notes: string[], signal: AbortSignal | undefined): Promise<ReportedVersion> {
    const { transport, hasher } = this.#options;
    const { record, facts } = head;
    const history = await orNote(readHistory(transport, head, hasher, signal), notes);
    const made = history?.versions.find(({ outerStep }) => outerStep === record.outerStep);
    return {
      outerStep: record.outerStep,
      updatedAt: record.updatedAt,
      master: facts.owner,
      hasLedger: facts.ledgerSha256 !== undefined,
      deltas: made?.deltas.length,
      outerLr: facts.outerLr,
      outerMomentum: facts.outerMomentum,
    };
  }

  async #commitsLastHour(signal: AbortSignal | undefined): Promise<number | undefined> {
    const { transport, now } = this.#options;
    if (!hasCommitLog(transport)) return undefined;
    const sinceMs = now() - HOUR_MS;
    return (await transport.commitTimes({ sinceMs, limit: MAX_COMMITS, signal })).length;
  }
}

/** A damaged document is worth a note, not the end of the report. */
async function orNote<T>(reading: Promise<T>, notes: string[]): Promise<T | undefined> {
  try {
    return await reading;
  } catch (error) {
    if (!(error instanceof AggregatorError)) throw error;
    notes.push(error.message);
    return undefined;
  }
}

function isDecided(ledger: Ledger, { path, contentId, nodeId, number }: ListedDelta): boolean {
  return findByContentId(ledger, path, contentId) !== undefined || isLongDecided(ledger, nodeId, number);
}

function shardCounts(head: RunHead | undefined, notes: string[]): ReadonlyMap<string, number> | undefined {
  const leases = head?.record.extra[LEASES_KEY];
  if (leases === undefined) return undefined;
  const counts = new Map<string, number>();
  try {
    for (const { leases: held } of parseLeases(leases).epochs) {
      for (const [nodeId, shards] of held) counts.set(nodeId, (counts.get(nodeId) ?? 0) + shards.length);
    }
  } catch (error) {
    notes.push(`the leases in the version record cannot be read: ${(error as Error).message}`);
    return undefined;
  }
  return counts;
}
