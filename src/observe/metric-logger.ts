// The one place events go through: it stamps them, copies them and hands them to sinks and hooks, none of which
// can stop training or see another's changes. It formats nothing and writes nowhere itself.
import { type ChannelProblem, SinkChannel } from "./channel.js";
import type { EventMap, EventName } from "./events/catalogue.js";
import type { LogLevel } from "./level.js";
import { copyPayload } from "./payload.js";
import type { EmissionScope, EventRecord } from "./record.js";
import { type Hook, type HookOptions, hookSink, type Sink } from "./sink.js";

/** Optional keys may also be given as `undefined`; they are left out then. */
export type EmittedPayload<P> = {
  [K in keyof P as Record<never, never> extends Pick<P, K> ? never : K]: P[K];
} & {
  [K in keyof P as Record<never, never> extends Pick<P, K> ? K : never]?: P[K] | undefined;
};

export interface MetricLoggerOptions {
  /** Stands on every record, so that runs sharing a file can be told apart. */
  runId: string;
  sinks?: readonly Sink[];
  hooks?: readonly Hook[];
  /** Records that may wait for one busy sink; beyond, the oldest are dropped. Default 1024. */
  queueLimit?: number;
  /** Longest wait per sink in `flush` and `close`. Default 5000. */
  closeTimeoutMs?: number;
  now?: () => Date;
  monotonicMs?: () => number;
}

/** Events that answer events that answer events: beyond this depth they are a loop. */
const maximumDepth = 4;

const problemText: Readonly<Record<ChannelProblem, string>> = {
  failed: "failed and was isolated; training goes on, later failures of it are not reported",
  dropped: "cannot keep up; its oldest waiting records are dropped",
  timeout: "did not finish in time and was abandoned",
};

export class MetricLogger {
  readonly runId: string;
  readonly #options: MetricLoggerOptions;
  readonly #monotonicMs: () => number;
  readonly #startMs: number;
  readonly #scope: EmissionScope = { depth: 0 };
  readonly #channels: SinkChannel[] = [];
  #pending: EventRecord[] = [];
  #isDispatching = false;
  #hasWarnedOfLoop = false;
  #closing: Promise<void> | undefined;

  constructor(options: MetricLoggerOptions) {
    this.runId = options.runId;
    this.#options = options;
    this.#monotonicMs = options.monotonicMs ?? (() => performance.now());
    this.#startMs = this.#monotonicMs();
    for (const sink of options.sinks ?? []) this.addSink(sink);
    for (const hook of options.hooks ?? []) this.addHook(hook);
  }

  /** Adds a sink for all later events. The returned function takes it out again, flushed and closed. */
  addSink(sink: Sink): () => Promise<void> {
    const channel = new SinkChannel(sink, {
      scope: this.#scope,
      queueLimit: this.#options.queueLimit ?? 1024,
      timeoutMs: this.#options.closeTimeoutMs ?? 5000,
      onProblem: (...problem) => this.#report(...problem),
    });
    this.#channels.push(channel);
    return async () => {
      const index = this.#channels.indexOf(channel);
      if (index >= 0) this.#channels.splice(index, 1);
      await channel.close();
    };
  }

  /** Adds a function or an object with `onEvent`; like {@link addSink}. */
  addHook(hook: Hook, options: HookOptions = {}): () => Promise<void> {
    return this.addSink(hookSink(hook, options));
  }

  /** Hands an event to every sink. Never throws and never waits. */
  emit<E extends EventName>(event: E, payload: EmittedPayload<EventMap[E]>): void {
    this.#emit(event, payload);
  }

  /** Like {@link emit}, for events of extensions that are not in the catalogue. */
  emitCustom(event: string, payload: Readonly<Record<string, unknown>>): void {
    this.#emit(event, payload);
  }

  debug(message: string): void {
    this.#log("DEBUG", message);
  }

  info(message: string): void {
    this.#log("INFO", message);
  }

  /** A `warning` event. `code` is a stable identifier such as `data.short_file`. */
  warning(code: string, message: string, details?: Readonly<Record<string, unknown>>): void {
    this.emit("warning", { code, message, details });
  }

  error(message: string): void {
    this.#log("ERROR", message);
  }

  /** Waits until every sink has taken and flushed what was emitted so far. */
  async flush(): Promise<void> {
    await Promise.all(this.#channels.map((channel) => channel.flush()));
  }

  /**
   * Flushes and closes all sinks and hooks, newest first, so that the display, added first, can still show
   * their warnings. Later events are ignored; closing twice is the same as once. Never rejects.
   */
  close(): Promise<void> {
    this.#closing ??= this.#closeAll();
    return this.#closing;
  }

  async #closeAll(): Promise<void> {
    for (const channel of [...this.#channels].reverse()) {
      await channel.close();
      if (channel.dropped > 0) {
        const message = `${channel.sink.name} lost ${channel.dropped} records because it was too slow`;
        this.#warnExcept(channel, "observe.sink_lost", message, {
          sink: channel.sink.name,
          lost: channel.dropped,
        });
      }
    }
  }

  #log(level: LogLevel, message: string): void {
    this.emit("log", { level, message });
  }

  #emit(event: string, payload: object, except?: SinkChannel): void {
    const depth = this.#scope.depth;
    if (depth > maximumDepth) {
      this.#reportLoop(event);
      return;
    }
    try {
      this.#pending.push(this.#stamp(event, payload, depth, except));
    } catch (error) {
      // A payload whose getters throw must not stop training either.
      const message = `event ${event} was not logged: its payload cannot be read (${errorText(error)})`;
      this.#pending.push(this.#stamp("warning", { code: "observe.bad_payload", message }, depth));
    }
    this.#dispatch();
  }

  #stamp(event: string, payload: object, depth: number, except?: SinkChannel): EventRecord {
    const time = this.#options.now?.() ?? new Date();
    const elapsedS = (this.#monotonicMs() - this.#startMs) / 1000;
    const own = (payload as { elapsed_s?: unknown }).elapsed_s === undefined ? { elapsed_s: elapsedS } : {};
    const added = { ...own, time: time.toISOString(), run_id: this.runId };
    return {
      event,
      payload: copyPayload(payload, added),
      time,
      elapsedS,
      runId: this.runId,
      depth,
      ...(except === undefined ? {} : { except }),
    };
  }

  /** An event emitted from inside a sink waits until all sinks have the one before it. */
  #dispatch(): void {
    if (this.#isDispatching) return;
    this.#isDispatching = true;
    for (let record = this.#pending.shift(); record !== undefined; record = this.#pending.shift()) {
      for (const channel of [...this.#channels]) channel.push(record);
    }
    this.#isDispatching = false;
  }

  #report(channel: SinkChannel, problem: ChannelProblem, error?: unknown): void {
    const { name } = channel.sink;
    const cause = error === undefined ? "" : `: ${errorText(error)}`;
    const details = { sink: name, ...(error === undefined ? {} : { error: errorText(error) }) };
    this.#warnExcept(channel, `observe.sink_${problem}`, `${name} ${problemText[problem]}${cause}`, details);
  }

  #warnExcept(channel: SinkChannel, code: string, message: string, details: Record<string, unknown>): void {
    this.#emit("warning", { code, message, details }, channel);
  }

  #reportLoop(event: string): void {
    if (this.#hasWarnedOfLoop) return;
    this.#hasWarnedOfLoop = true;
    const message = `a hook emits ${event} in answer to its own events; such events are dropped from the ${maximumDepth}th on`;
    this.#pending.push(this.#stamp("warning", { code: "observe.event_loop", message }, maximumDepth));
    this.#dispatch();
  }
}

function errorText(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
