// Between simulated processes and one repository: latency, and the faults of the injector. What arrives at the repository
// is carried out at once and as a whole, whatever becomes of the answer or of the sender.

import type { ByteSource } from "../../formats/safetensors/index.js";
import type {
  CallOptions,
  CommitRequest,
  FileContent,
  RepoFile,
  RepoOperation,
  Transport,
} from "../transports/contract.js";
import { TransportError } from "../transports/errors.js";
import { type MemoryRepository, MemoryTransport } from "../transports/memory.js";
import type { CallKind, CallPlan, FaultInjector } from "./faults.js";
import type { SimulatedProcess } from "./process.js";
import type { RandomStream } from "./random.js";
import type { VirtualTime } from "./virtual-time.js";

const LOST_TIMEOUT_MS = 15_000;

export interface NetworkOptions {
  readonly time: VirtualTime;
  readonly repository: MemoryRepository;
  readonly faults: FaultInjector;
  readonly log: (who: string, what: string) => void;
  /** After each commit, before anybody hears of it. */
  readonly onCommit: () => void;
}

export class Network {
  readonly #options: NetworkOptions;
  readonly #server: MemoryTransport;
  #overtakers = 0;
  #commitsUnderWay = 0;

  constructor(options: NetworkOptions) {
    this.#options = options;
    this.#server = new MemoryTransport(options.repository);
  }

  /** Commits that have not arrived yet, whether or not anybody still waits for the answer. */
  get commitsUnderWay(): number {
    return this.#commitsUnderWay;
  }

  connect(process: SimulatedProcess, random: RandomStream): Transport {
    return new Connection(this.#server, this, process, random);
  }

  /** One request and its answer. */
  call<T>(
    process: SimulatedProcess,
    kind: CallKind,
    plan: CallPlan,
    signal: AbortSignal | undefined,
    work: () => Promise<T>,
  ): Promise<T> {
    const { time, log } = this.#options;
    return new Promise<T>((resolve, reject) => {
      if (signal?.aborted === true) return reject(signal.reason);
      const onAbort = () => reject(signal!.reason);
      const answer = (settle: () => void, what: string) =>
        process.deliver(() => {
          signal?.removeEventListener("abort", onAbort);
          log(process.name, `${kind} ${what}`);
          settle();
        });
      const fail = (error: unknown) =>
        answer(() => reject(error), error instanceof TransportError ? error.problem : String(error));
      signal?.addEventListener("abort", onAbort, { once: true });
      if (plan.patienceMs !== undefined) time.after(plan.patienceMs, () => fail(noAnswer(kind)));
      if (kind === "commit") this.#commitsUnderWay++;
      time.after(plan.requestMs, () => {
        if (kind === "commit") this.#commitsUnderWay--;
        if (process.isDead && !plan.outlivesSender) return;
        void this.#serve(kind, plan, work).then(
          (value) => time.after(plan.answerMs, () => answer(() => resolve(value), "ok")),
          (error: unknown) => {
            const isLost = plan.trouble === "lost-answer" || plan.trouble === "lost-request";
            time.after(isLost ? LOST_TIMEOUT_MS : plan.answerMs, () => fail(error));
          },
        );
      });
    });
  }

  async #serve<T>(kind: CallKind, { trouble }: CallPlan, work: () => Promise<T>): Promise<T> {
    if (trouble === "throttled")
      throw new TransportError("throttled", "too many requests", { retryAfterMs: 2000 });
    if (trouble === "busy") throw new TransportError("conflict", "another commit is in progress");
    if (trouble === "lost-request") throw noAnswer(kind);
    if (trouble === "failed-before") throw new TransportError("ambiguous", "500");
    if (trouble === "overtaken") await this.#overtake();
    const value = await work();
    if (kind === "commit") this.#options.onCommit();
    if (trouble === "failed-after") throw new TransportError("ambiguous", "500");
    if (trouble === "lost-answer") throw noAnswer(kind);
    if (trouble === "truncated") throw new TransportError("corrupt", "the answer ended early");
    return value;
  }

  /** A commit of somebody who has nothing to do with the run. */
  async #overtake(): Promise<void> {
    const bytes = new TextEncoder().encode(String(this.#overtakers++));
    const operations: RepoOperation[] = [{ kind: "put", path: "README.md", content: contentOf([bytes]) }];
    await this.#server
      .commit({ parent: await this.#server.head(), message: "words", operations })
      .catch(() => undefined);
    this.#options.onCommit();
  }

  plan(kind: CallKind, random: RandomStream): CallPlan {
    return this.#options.faults.plan(kind, random);
  }
}

class Connection implements Transport {
  readonly title: string;
  readonly key: string;
  readonly #server: MemoryTransport;
  readonly #network: Network;
  readonly #process: SimulatedProcess;
  readonly #random: RandomStream;

  constructor(server: MemoryTransport, network: Network, process: SimulatedProcess, random: RandomStream) {
    this.title = server.title;
    this.key = server.key;
    this.#server = server;
    this.#network = network;
    this.#process = process;
    this.#random = random;
  }

  create(options: CallOptions = {}) {
    return this.#call("create", options, () => this.#server.create());
  }

  head(options: CallOptions & { readonly known?: string | undefined } = {}): Promise<string> {
    return this.#call("head", options, () => this.#server.head());
  }

  list(revision: string, prefix: string, options: CallOptions = {}): Promise<readonly RepoFile[]> {
    return this.#call("list", options, () => this.#server.list(revision, prefix));
  }

  read(revision: string, path: string, maxBytes: number, options: CallOptions = {}) {
    return this.#call("read", options, () => this.#server.read(revision, path, maxBytes));
  }

  async open(revision: string, path: string, options: CallOptions = {}): Promise<ByteSource> {
    const source = await this.#call("open", options, () => this.#server.open(revision, path));
    return {
      name: path,
      sizeBytes: source.sizeBytes,
      read: (offset, length) => this.#call("piece", options, () => source.read(offset, length)),
    };
  }

  async commit({ parent, message, operations }: CommitRequest, options: CallOptions = {}): Promise<string> {
    // What is under way has left the sender's memory.
    const sent: RepoOperation[] = [];
    for (const operation of operations)
      sent.push(
        operation.kind === "put" ? { ...operation, content: await copyOf(operation.content) } : operation,
      );
    return this.#call("commit", options, () => this.#server.commit({ parent, message, operations: sent }));
  }

  async close(): Promise<void> {}

  #call<T>(kind: CallKind, { signal }: CallOptions, work: () => Promise<T>): Promise<T> {
    return this.#network.call(this.#process, kind, this.#network.plan(kind, this.#random), signal, work);
  }
}

function noAnswer(kind: CallKind): TransportError {
  return new TransportError(kind === "commit" ? "ambiguous" : "unavailable", "no answer");
}

async function copyOf(content: FileContent): Promise<FileContent> {
  const chunks: Uint8Array[] = [];
  for await (const chunk of content.chunks()) chunks.push(chunk.slice());
  return contentOf(chunks);
}

function contentOf(chunks: readonly Uint8Array[]): FileContent {
  return {
    sizeBytes: chunks.reduce((sum, { byteLength }) => sum + byteLength, 0),
    async *chunks() {
      yield* chunks;
    },
  };
}
