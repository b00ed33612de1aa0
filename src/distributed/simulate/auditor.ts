// Looks at every commit of the repository, knows everything and helps nobody. What it finds wrong becomes a violation.
// Publications are audit-version.ts.

import type { Ledger, LedgerEntry } from "../protocol/ledger.js";
import type { MergeSettings } from "../protocol/master-contract.js";
import type { MemoryRepository } from "../transports/memory.js";
import { parseDeltaPath } from "../wire/delta-path.js";
import { auditRound, type Publication, readPublication } from "./audit-version.js";
import type { InvariantName } from "./invariants.js";
import { isFiniteFile, type PlainFile, readPlainFile } from "./plain-file.js";
import { isSameBits, normOf, type Tensors } from "./replay.js";
import { STEPS } from "./toy-model.js";

/** A few longer ones add up to more than float32 can hold, in the momentum if not at once. */
const LONGEST_NORM = 1e30;

/** A file under a delta's path, as it was committed. */
export interface SentDelta {
  readonly path: string;
  readonly nodeId: string;
  readonly number: number;
  readonly sha256: string;
  readonly file: PlainFile;
  readonly base: number;
  readonly tokens: number | undefined;
  readonly norm: number;
  readonly isFinite: boolean;
  /** Local steps that it holds; undefined for peers that make their deltas up. */
  readonly places: readonly number[] | undefined;
  entry: LedgerEntry | undefined;
}

export interface AuditedVersion {
  readonly publication: Publication;
  readonly state: Tensors;
  readonly momentum: Tensors | undefined;
  readonly norms: readonly number[];
}

export interface AuditorOptions {
  readonly repository: MemoryRepository;
  readonly settings: MergeSettings;
  readonly sha256: (bytes: Uint8Array) => string;
  /** Whose local step has this place. */
  readonly ownerOf: (place: number) => string | undefined;
  readonly isHonest: (nodeId: string) => boolean;
  readonly violate: (invariant: InvariantName, message: string) => void;
}

export class Auditor {
  readonly options: AuditorOptions;
  /** By path and hash. */
  readonly sent = new Map<string, SentDelta>();
  readonly versions: AuditedVersion[] = [];
  /** Version that decided about a place. */
  readonly decidedPlaces = new Map<number, number>();
  /** Decided after the publication of their version: a node may have installed it before or after that. */
  readonly #latePlaces = new Set<number>();
  readonly appliedContents = new Map<string, string>();
  #audited = 0;
  #tree: ReadonlyMap<string, string> = new Map();
  #publication: Publication | undefined;

  constructor(options: AuditorOptions) {
    this.options = options;
  }

  get newest(): AuditedVersion | undefined {
    return this.versions.at(-1);
  }

  get undecided(): SentDelta[] {
    return [...this.sent.values()].filter(({ entry }) => entry === undefined);
  }

  /** Whether `version` or one before it has decided about a local step. */
  isDecided(place: number, version: number): boolean {
    const decided = this.decidedPlaces.get(place);
    return decided !== undefined && decided <= version;
  }

  /** Whether a node that has installed `version` may have installed it before this was decided. */
  mayNotKnow(place: number, version: number): boolean {
    return this.#latePlaces.has(place) && this.decidedPlaces.get(place) === version;
  }

  /** Looks at the commits since the last call. */
  audit(): void {
    const { commits } = this.options.repository;
    for (; this.#audited < commits.length; this.#audited++) this.#auditCommit(commits[this.#audited]!.tree);
  }

  #auditCommit(tree: ReadonlyMap<string, string>): void {
    const { repository, violate } = this.options;
    const before = this.#tree;
    this.#tree = tree;
    const written = [...tree].filter(([path, id]) => before.get(path) !== id);
    const deleted = [...before].filter(([path]) => !tree.has(path));
    for (const [path, id] of written) {
      const parsed = parseDeltaPath(path);
      if (parsed.kind !== "delta") continue;
      const old = before.get(path);
      if (old !== undefined) this.#requireDecided(path, old, "was replaced");
      this.#take(path, parsed.nodeId, parsed.localStep, repository.blob(id));
    }
    const record = tree.get("global/step_count.json");
    const touched = [...written, ...deleted]
      .map(([path]) => path)
      .filter((path) => path.startsWith("global/"));
    if (record !== undefined && record !== before.get("global/step_count.json")) {
      this.#auditRecord((path) => {
        const id = tree.get(path);
        return id === undefined ? undefined : repository.blob(id);
      });
    } else if (touched.length > 0) violate("files", `${touched.join(", ")} changed without a new record`);
    for (const [path, id] of deleted) {
      if (parseDeltaPath(path).kind === "delta") this.#requireDecided(path, id, "was deleted");
    }
  }

  #requireDecided(path: string, contentId: string, what: string): void {
    const sha256 = this.options.sha256(this.options.repository.blob(contentId));
    if (this.sent.get(keyOf(path, sha256))?.entry !== undefined) return;
    this.options.violate("kept", `${path} ${what} before a version had decided about it`);
  }

  #take(path: string, nodeId: string, number: number, bytes: Uint8Array): void {
    const { sha256: hash, isHonest, ownerOf, violate } = this.options;
    const sha256 = hash(bytes);
    if (this.sent.has(keyOf(path, sha256))) return;
    const file = readPlainFile(bytes);
    const steps = file.floats.get(STEPS)!;
    const places: number[] = [];
    if (isHonest(nodeId)) {
      for (const [place, value] of steps.entries()) {
        if (value === 0) continue;
        if (value !== -1) violate("local", `${path} holds ${-value} times the local step ${place}`);
        if (ownerOf(place) !== nodeId)
          violate("local", `${path} holds the local step ${place} of ${ownerOf(place)}`);
        places.push(place);
      }
    }
    const tokens = file.metadata["speedtronic.tokens"];
    this.sent.set(keyOf(path, sha256), {
      path,
      nodeId,
      number,
      sha256,
      file,
      base: Number(file.metadata.base_outer_step),
      tokens: tokens === undefined ? undefined : Number(tokens),
      norm: normOf(file.floats),
      isFinite: isFiniteFile(file),
      places: isHonest(nodeId) ? places : undefined,
      entry: undefined,
    });
  }

  #auditRecord(read: (path: string) => Uint8Array | undefined): void {
    const { violate, sha256 } = this.options;
    const before = this.#publication;
    let publication: Publication;
    try {
      publication = readPublication(read, sha256);
    } catch (error) {
      violate("files", error instanceof Error ? error.message : String(error));
      return;
    }
    this.#publication = publication;
    const { outerStep } = publication;
    if (before === undefined) {
      if (outerStep !== 0) violate("order", `the first version is ${outerStep}`);
      this.versions.push({ publication, state: publication.state, momentum: undefined, norms: [] });
      return;
    }
    const previous = this.versions.at(-1)!;
    if (outerStep === before.outerStep) {
      const isSameModel = publication.modelSha256 === before.modelSha256;
      const isSame = isSameModel && publication.ledgerText === before.ledgerText;
      if (!isSameModel) violate("order", `version ${outerStep} was replaced by another one`);
      else if (!isSame && publication.masterTerm === before.masterTerm)
        this.#auditLedger(before.ledger, publication.ledger, { isLate: true });
      else if (!isSame) violate("order", `the ledger of version ${outerStep} was replaced by another one`);
      else if (publication.masterTerm <= before.masterTerm)
        violate("order", `version ${outerStep} was published twice by term ${publication.masterTerm}`);
      return;
    }
    if (outerStep !== before.outerStep + 1)
      violate("order", `version ${outerStep} follows version ${before.outerStep}`);
    if (publication.parentOuterStep !== before.outerStep)
      violate(
        "order",
        `version ${outerStep} is made from ${publication.parentOuterStep}, not ${before.outerStep}`,
      );
    if (publication.masterTerm < before.masterTerm)
      violate(
        "order",
        `version ${outerStep} is of term ${publication.masterTerm} after ${before.masterTerm}`,
      );
    this.#auditLedger(before.ledger, publication.ledger);
    this.versions.push(auditRound(this, previous, publication));
  }

  /** Old entries stay as they are; new ones are this version's. With `isLate` they were refused after it. */
  #auditLedger(before: Ledger, { entries }: Ledger, { isLate = false } = {}): void {
    const { violate } = this.options;
    const found = new Map(entries.map((entry) => [keyOf(entry.path, entry.contentId), entry]));
    for (const old of before.entries) {
      const now = found.get(keyOf(old.path, old.contentId));
      found.delete(keyOf(old.path, old.contentId));
      if (now === undefined) violate("once", `${old.path} has gone from the ledger`);
      else if (JSON.stringify(now) !== JSON.stringify(old))
        violate(
          "once",
          `${old.path} was ${old.fate} in ${old.outerStep} and is now ${now.fate} in ${now.outerStep}`,
        );
    }
    for (const entry of found.values()) this.#decide(entry, isLate);
  }

  #decide(entry: LedgerEntry, isLate: boolean): void {
    const { violate, settings } = this.options;
    const { path, sha256, outerStep, fate } = entry;
    const delta = this.sent.get(keyOf(path, sha256 ?? ""));
    if (delta === undefined) {
      violate("reason", `${path} is ${fate} in version ${outerStep} without having been sent as it is`);
      return;
    }
    if (delta.entry !== undefined)
      violate(
        "once",
        `${path} is ${fate} in ${outerStep} after ${delta.entry.fate} in ${delta.entry.outerStep}`,
      );
    delta.entry = entry;
    const isCounted = fate === "applied" || fate === "merged";
    const age = (isLate ? outerStep : outerStep - 1) - delta.base;
    if (isCounted && isLate) violate("order", `${path} was counted in ${outerStep} after its publication`);
    const twin = this.appliedContents.get(delta.sha256);
    const truth: readonly (readonly [code: string, isTrue: boolean])[] = [
      ["non_finite", !delta.isFinite],
      ["empty", delta.norm === 0],
      ["duplicate", twin !== undefined],
      ["unknown_base", age < 0],
      ["stale", age > settings.stalenessLimit],
      ["overflow", delta.norm > LONGEST_NORM],
    ];
    const code = entry.reason.split(":")[0]!;
    if (!isCounted && truth.find(([name]) => name === code)?.[1] !== true)
      violate("reason", `${path} is ${fate} in ${outerStep} for no true reason: ${entry.reason}`);
    if (isCounted) {
      const objection = truth.find(([, isTrue]) => isTrue)?.[0];
      if (objection === "duplicate")
        violate("once", `${path} has the content of ${twin}, which is in a sum already`);
      else if (objection !== undefined)
        violate("reason", `${path} is ${fate} in ${outerStep} though ${objection}`);
      this.appliedContents.set(delta.sha256, path);
    }
    for (const place of delta.places ?? []) {
      const earlier = this.decidedPlaces.get(place);
      if (earlier !== undefined)
        violate("once", `the local step ${place} in ${path} was decided in ${earlier} already`);
      this.decidedPlaces.set(place, outerStep);
      if (isLate) this.#latePlaces.add(place);
    }
  }

  /** Everything that must be true once nothing is under way any more. */
  auditEnd(): void {
    this.audit();
    for (const { path } of this.undecided) this.options.violate("kept", `${path} has no fate`);
  }

  isNewest(state: Tensors): boolean {
    const { newest } = this;
    return newest !== undefined && isSameBits(state, newest.state);
  }
}

export const keyOf = (path: string, content: string): string => `${path}\n${content}`;
