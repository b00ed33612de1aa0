// Trouble on demand, for tests and simulations: a connector around another one that fails the way networks and hubs do.
// It stays within the contract: whatever it does, a repository behind a bad line may do as well.

import type { ByteSource } from "../../formats/safetensors/index.js";
import type { Clock } from "./clock.js";
import type { CallOptions, CommitRequest, RepoFile, Transport } from "./contract.js";
import { TransportError } from "./errors.js";

/** `part` is a read of an opened file. */
export type FaultMethod = "create" | "head" | "list" | "read" | "open" | "part" | "commit";

export interface FaultCall {
  readonly method: FaultMethod;
  /** Calls before this one through the same connector, of any method. */
  readonly index: number;
  readonly path?: string | undefined;
  readonly revision?: string | undefined;
  /** Of `commit`. */
  readonly request?: CommitRequest | undefined;
}

export type FaultKind =
  /** Nobody answers; nothing is done. Any method. */
  | "unavailable"
  /** Too many requests; nothing is done. Any method. */
  | "throttled"
  /** The call is carried out, the answer gets lost: `ambiguous` for a commit, `unavailable` for others. Any method. */
  | "lost_response"
  /** `conflict` although the parent may be the head; nothing is done. Commits. */
  | "conflict"
  /** The commit is made, and the answer is `ambiguous`: the hub's "500 but committed". Commits. */
  | "ambiguous_committed"
  /** The same answer without a commit. Commits. */
  | "ambiguous_not_committed"
  /** The bytes end early, which a connector notices: `corrupt`. Method `read`, `open` and `part`. */
  | "truncated"
  /** The head that was seen before the newest one: a replica that lags. Method `head`; nothing if only one was seen. */
  | "stale_head";

export interface Fault {
  /** Without one the call only takes long. */
  readonly kind?: FaultKind | undefined;
  /** Before the call is carried out. */
  readonly delayMs?: number | undefined;
  /** Between that and the answer. */
  readonly answerDelayMs?: number | undefined;
  /** Of `throttled` and `unavailable`. */
  readonly retryAfterMs?: number | undefined;
}

export type FaultPlan = (call: FaultCall) => Fault | undefined;

export interface FaultOptions {
  /** Needed for delays; without one they are left out. */
  readonly clock?: Clock | undefined;
  /** Told about every fault that was put in, after delays and before the answer. */
  readonly onFault?: ((call: FaultCall, fault: Fault) => void) | undefined;
}

const FAULTS_OF: Readonly<Record<FaultMethod, ReadonlySet<FaultKind>>> = {
  create: new Set(["unavailable", "throttled", "lost_response"]),
  head: new Set(["unavailable", "throttled", "lost_response", "stale_head"]),
  list: new Set(["unavailable", "throttled", "lost_response"]),
  read: new Set(["unavailable", "throttled", "lost_response", "truncated"]),
  open: new Set(["unavailable", "throttled", "lost_response", "truncated"]),
  part: new Set(["unavailable", "throttled", "lost_response", "truncated"]),
  commit: new Set([
    "unavailable",
    "throttled",
    "lost_response",
    "conflict",
    "ambiguous_committed",
    "ambiguous_not_committed",
  ]),
};

/** Whether `kind` can happen to calls of this method. */
export function isFaultOf(method: FaultMethod, kind: FaultKind): boolean {
  return FAULTS_OF[method].has(kind);
}

/** `transport` with the faults of `plan`. A kind that cannot happen to a method is left out there. */
export function withFaults(transport: Transport, plan: FaultPlan, options: FaultOptions = {}): Transport {
  return new FaultyTransport(transport, plan, options);
}

class FaultyTransport implements Transport {
  readonly title: string;
  readonly key: string;
  readonly #inner: Transport;
  readonly #plan: FaultPlan;
  readonly #options: FaultOptions;
  #calls = 0;
  /** Different heads in the order in which they were seen; the last two. */
  #heads: readonly string[] = [];

  constructor(inner: Transport, plan: FaultPlan, options: FaultOptions) {
    this.title = inner.title;
    this.key = inner.key;
    this.#inner = inner;
    this.#plan = plan;
    this.#options = options;
  }

  create(options: CallOptions = {}): Promise<{ readonly created: boolean; readonly isPublic: boolean }> {
    return this.#run({ method: "create" }, options, () => this.#inner.create(options));
  }

  head(options: CallOptions & { readonly known?: string | undefined } = {}): Promise<string> {
    return this.#run({ method: "head" }, options, async (kind) => {
      const [previous] = this.#heads;
      if (kind === "stale_head" && previous !== undefined && this.#heads.length === 2) return previous;
      return this.#see(await this.#inner.head(options));
    });
  }

  list(revision: string, prefix: string, options: CallOptions = {}): Promise<readonly RepoFile[]> {
    return this.#run({ method: "list", path: prefix, revision }, options, () =>
      this.#inner.list(revision, prefix, options),
    );
  }

  read(
    revision: string,
    path: string,
    maxBytes: number,
    options: CallOptions = {},
  ): Promise<Uint8Array | undefined> {
    return this.#run({ method: "read", path, revision }, options, async (kind) => {
      const bytes = await this.#inner.read(revision, path, maxBytes, options);
      if (kind === "truncated" && bytes !== undefined) throw truncated(this.title, path, bytes.byteLength);
      return bytes;
    });
  }

  async open(revision: string, path: string, options: CallOptions = {}): Promise<ByteSource> {
    const opened: ByteSource[] = [];
    try {
      return await this.#run({ method: "open", path, revision }, options, async (kind) => {
        const source = await this.#inner.open(revision, path, options);
        opened.push(source);
        if (kind === "truncated") throw truncated(this.title, path, source.sizeBytes);
        return this.#watch(source, revision, path, options);
      });
    } catch (error) {
      // Nobody else can: the caller does not get it.
      for (const source of opened) await source.close?.();
      throw error;
    }
  }

  commit(request: CommitRequest, options: CallOptions = {}): Promise<string> {
    return this.#run({ method: "commit", request }, options, async (kind) => {
      if (kind === "conflict")
        throw new TransportError("conflict", `${this.title}: a planned conflict; read the new head`);
      if (kind === "ambiguous_not_committed") throw ambiguous(this.title);
      const revision = this.#see(await this.#inner.commit(request, options));
      if (kind === "ambiguous_committed") throw ambiguous(this.title);
      return revision;
    });
  }

  close(): Promise<void> {
    return this.#inner.close();
  }

  #watch(source: ByteSource, revision: string, path: string, options: CallOptions): ByteSource {
    const read = (offset: number, length: number) =>
      this.#run({ method: "part", path, revision }, options, async (kind) => {
        if (kind === "truncated") throw truncated(this.title, path, length);
        return source.read(offset, length);
      });
    return {
      name: source.name ?? path,
      sizeBytes: source.sizeBytes,
      read,
      close: async () => source.close?.(),
    };
  }

  #see(head: string): string {
    if (this.#heads.at(-1) !== head) this.#heads = [...this.#heads.slice(-1), head];
    return head;
  }

  async #run<T>(
    facts: Omit<FaultCall, "index">,
    { signal }: CallOptions,
    work: (kind: FaultKind | undefined) => Promise<T>,
  ): Promise<T> {
    signal?.throwIfAborted();
    const call: FaultCall = { ...facts, index: this.#calls++ };
    const fault = this.#plan(call) ?? {};
    const { retryAfterMs } = fault;
    const kind = fault.kind !== undefined && isFaultOf(call.method, fault.kind) ? fault.kind : undefined;
    const isSeen = kind !== undefined || fault.delayMs !== undefined || fault.answerDelayMs !== undefined;
    await this.#wait(fault.delayMs, signal);
    if (isSeen) this.#options.onFault?.(call, { ...fault, kind });
    const doing = `${call.method} of ${this.title}`;
    if (kind === "unavailable")
      throw new TransportError("unavailable", `${doing}: a planned outage`, { retryAfterMs });
    if (kind === "throttled")
      throw new TransportError("throttled", `${doing}: a planned limit of requests`, { retryAfterMs });
    try {
      const value = await work(kind);
      if (kind !== "lost_response") return value;
    } finally {
      await this.#wait(fault.answerDelayMs, signal);
    }
    if (call.method === "commit") throw ambiguous(this.title);
    throw new TransportError("unavailable", `${doing}: a planned loss of the answer`);
  }

  async #wait(ms: number | undefined, signal: AbortSignal | undefined): Promise<void> {
    if (ms === undefined || this.#options.clock === undefined) return;
    await this.#options.clock.sleep(ms, signal);
    signal?.throwIfAborted();
  }
}

function ambiguous(title: string): TransportError {
  return new TransportError("ambiguous", `${title}: the commit may have been made; read the head and look`);
}

function truncated(title: string, path: string, sizeBytes: number): TransportError {
  const message = `${path} of ${title}: the answer ended within its ${sizeBytes} bytes`;
  return new TransportError("corrupt", message, { path });
}
