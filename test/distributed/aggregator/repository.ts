// Helpers of the aggregator's tests: a repository in memory whose calls can be made to fail, a clock that only the test
// moves, deltas as nodes send them, and an aggregator over all of it.

import { createHash } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll } from "vitest";
import { type DeltaHeaderInput, parseVersionRecord, writeDelta } from "../../../src/distributed/index.js";
import { Aggregator, type AggregatorOptions } from "../../../src/distributed/node/aggregator.js";
import { diskSurroundings } from "../../../src/distributed/node/aggregator-disk.node.js";
import type { MergeSettings } from "../../../src/distributed/protocol/master-contract.js";
import type { CommitRequest, RepoFile, Transport } from "../../../src/distributed/transports/contract.js";
import { TransportError } from "../../../src/distributed/transports/errors.js";
import { bytesSource, type TensorInput, writeSafetensors } from "../../../src/formats/safetensors/index.js";
import { fileValues, MemorySink } from "../states.js";

type Tree = ReadonlyMap<string, Uint8Array>;

const sha256 = (bytes: Uint8Array) => createHash("sha256").update(bytes).digest("hex");

/** Faults are taken from the front, one per commit. */
export type Fault = "conflict" | "lost answer" | "unavailable" | ((request: CommitRequest) => void);

export class FakeRepository implements Transport {
  readonly title = "the test repository";
  readonly key = "test-repository";
  readonly revisions: Tree[] = [new Map()];
  readonly calls: string[] = [];
  readonly commits: CommitRequest[] = [];
  faults: Fault[] = [];
  isPublic = false;

  async create() {
    this.calls.push("create");
    return { created: false, isPublic: this.isPublic };
  }

  async head(): Promise<string> {
    this.calls.push("head");
    return String(this.revisions.length - 1);
  }

  async list(revision: string, prefix: string): Promise<RepoFile[]> {
    this.calls.push(`list ${prefix}`);
    return [...this.#tree(revision)]
      .filter(([path]) => path.startsWith(prefix))
      .map(([path, bytes]) => ({ path, sizeBytes: bytes.byteLength, contentId: sha256(bytes).slice(0, 40) }))
      .sort((a, b) => (a.path < b.path ? -1 : 1));
  }

  async read(revision: string, path: string): Promise<Uint8Array | undefined> {
    this.calls.push(`read ${path}`);
    return this.#tree(revision).get(path);
  }

  async open(revision: string, path: string) {
    this.calls.push(`open ${path}`);
    const bytes = this.#tree(revision).get(path);
    if (bytes === undefined) throw new TransportError("not_found", `${path} is not there`);
    return bytesSource(bytes, path);
  }

  async commit(request: CommitRequest): Promise<string> {
    this.calls.push("commit");
    const fault = this.faults.shift();
    if (typeof fault === "function") fault(request);
    if (fault === "unavailable") throw new TransportError("unavailable", "nobody answers");
    if (fault === "conflict") this.write({ [`notes/${this.revisions.length}.txt`]: Uint8Array.of(1) });
    if (request.parent !== String(this.revisions.length - 1))
      throw new TransportError("conflict", "not the head");
    const tree = new Map(this.#tree(request.parent));
    for (const operation of request.operations) {
      if (operation.kind === "delete") {
        tree.delete(operation.path);
        continue;
      }
      const chunks: Uint8Array[] = [];
      for await (const chunk of operation.content.chunks()) chunks.push(chunk);
      tree.set(operation.path, new Uint8Array(Buffer.concat(chunks)));
    }
    this.commits.push(request);
    this.revisions.push(tree);
    if (fault === "lost answer") throw new TransportError("ambiguous", "the answer was lost");
    return String(this.revisions.length - 1);
  }

  async close() {}

  /** A commit of somebody else. */
  write(files: Readonly<Record<string, Uint8Array | string | null>>): void {
    const tree = new Map(this.files);
    for (const [path, content] of Object.entries(files)) {
      if (content === null) tree.delete(path);
      else tree.set(path, typeof content === "string" ? new TextEncoder().encode(content) : content);
    }
    this.revisions.push(tree);
  }

  get files(): Tree {
    return this.revisions.at(-1)!;
  }

  get record() {
    return parseVersionRecord(this.files.get("global/step_count.json")!);
  }

  /** Weights of the newest version. */
  get weights(): Record<string, number[]> {
    return fileValues(this.files.get(this.record.modelFile)!);
  }

  text(path: string): string {
    return new TextDecoder().decode(this.files.get(path));
  }

  #tree(revision: string): Tree {
    return this.revisions[Number(revision)]!;
  }
}

/** Sleeping takes no time; time passes only in it, and when the test says so. */
export class FakeClock {
  ms = 1000;
  readonly now = () => this.ms;
  readonly sleep = async (ms: number) => {
    this.ms += ms;
  };
}

export async function deltaFile(
  header: Partial<DeltaHeaderInput> & { readonly nodeId: string },
  ...tensors: TensorInput[]
): Promise<Uint8Array> {
  const sink = new MemorySink();
  await writeDelta(sink, tensors, { localStep: 1, baseOuterStep: 0, ...header });
  return sink.bytes;
}

export const plainSettings: MergeSettings = {
  outerLr: 0.7,
  outerMomentum: 0.9,
  momentumWarmupRounds: 0,
  merge: "python",
  stalenessLimit: 10,
  stalenessDiscount: 1,
  clipFactor: null,
  quorum: 1,
  graceMs: 1e9,
  keepVersions: 3,
};

const folders: string[] = [];
afterAll(() => {
  for (const folder of folders) rmSync(folder, { recursive: true, force: true });
});

function newFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "aggregator-"));
  folders.push(folder);
  return folder;
}

export interface Setup extends Partial<Omit<AggregatorOptions, "settings">> {
  readonly repository: FakeRepository;
  readonly settings?: Partial<MergeSettings>;
  readonly weights?: readonly TensorInput[];
  /** Of an earlier aggregator. Default: each has a scratch folder of its own, so that nothing but the repository lasts. */
  readonly folder?: string;
}

export async function start(setup: Setup) {
  const { repository, weights, settings, folder = newFolder(), ...rest } = setup;
  const clock = new FakeClock();
  const events: [string, Readonly<Record<string, unknown>>][] = [];
  const surroundings = { ...(await diskSurroundings(folder, clock)), dateMs: () => Date.UTC(2026, 0, 1) };
  const aggregator = await Aggregator.start({
    transport: repository,
    surroundings,
    settings: { ...plainSettings, ...settings },
    masterId: "master-1",
    pollIntervalMs: 1000,
    random: () => 0.5,
    bootstrap:
      weights === undefined
        ? undefined
        : {
            writeState: async (sink) => {
              await writeSafetensors(sink, weights);
            },
          },
    onEvent: (event, payload) => events.push([event, payload]),
    ...rest,
  });
  return { aggregator, clock, events, folder };
}
