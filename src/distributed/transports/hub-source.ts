// A file of a hub, read in ranges. A read that breaks off goes on where it stopped; only failures without any progress
// between them count.

import type { ByteSource } from "../../formats/safetensors/index.js";
import { type BackoffSettings, backoffMs } from "./backoff.js";
import { TransportError } from "./errors.js";
import type { HubAnswer, HubHttp } from "./hub-http.js";

export interface HubFile {
  readonly http: HubHttp;
  readonly url: string;
  readonly path: string;
  /** For messages. */
  readonly doing: string;
  readonly signal?: AbortSignal | undefined;
  readonly retry: RetryRule;
}

export interface RetryRule {
  /** Failures in a row without a byte between them before a read is given up. */
  readonly attempts: number;
  readonly sleep: (ms: number, signal: AbortSignal | undefined) => Promise<void>;
  /** In [0, 1). */
  readonly random: () => number;
}

/** What comes with the first request, usually all of a small file. */
const FIRST_BYTES = 1 << 16;
const PAUSES: BackoffSettings = { initialMs: 250, maxMs: 16_000 };

export class HubSource implements ByteSource {
  readonly name: string;
  readonly sizeBytes: number;
  /** SHA-256 for large files, git's SHA-1 for others, as the hub said; undefined if it said neither. */
  readonly contentId: string | undefined;
  readonly #file: HubFile;
  readonly #first: Uint8Array;
  /** Address in the hub's store: spares a redirect until it runs out. */
  #direct: string | undefined;

  private constructor(file: HubFile, sizeBytes: number, contentId: string | undefined, first: Uint8Array) {
    this.name = file.path;
    this.#file = file;
    this.sizeBytes = sizeBytes;
    this.contentId = contentId;
    this.#first = first;
  }

  /** Undefined if there is no such file. */
  static async open(file: HubFile): Promise<HubSource | undefined> {
    return withRetries(file, async (progress) => {
      const answer = await request(file, file.url, 0, FIRST_BYTES);
      const { response, firstHeaders } = answer;
      const { status, headers } = response;
      const isMissing = status === 404 && headers.get("x-error-code") === "EntryNotFound";
      const total = /\/([0-9]+)$/.exec(headers.get("content-range") ?? "")?.[1];
      if (isMissing || (status === 416 && total === "0")) {
        await response.body?.cancel();
        return isMissing ? undefined : new HubSource(file, 0, undefined, new Uint8Array(0));
      }
      if (!response.ok) throw await file.http.toError(answer, file);
      const size = Number(status === 206 ? total : (headers.get("content-length") ?? Number.NaN));
      if (!Number.isSafeInteger(size) || headers.get("content-encoding") !== null)
        throw corrupt(file, "the hub does not say how large the file is");
      const linkedSize = firstHeaders.get("x-linked-size");
      if (linkedSize !== null && Number(linkedSize) !== size)
        throw corrupt(file, `the hub says ${linkedSize} bytes and its store ${size}`);
      const first = new Uint8Array(Math.min(size, FIRST_BYTES));
      await fill(file, response, first, 0, status === 200, progress);
      const source = new HubSource(file, size, contentIdOf(firstHeaders), first);
      if (answer.url !== file.url) source.#direct = answer.url;
      return source;
    });
  }

  async read(offset: number, length: number): Promise<Uint8Array> {
    this.#checkRange(offset, length);
    if (offset + length <= this.#first.byteLength) return this.#first.subarray(offset, offset + length);
    const target = new Uint8Array(length);
    await this.readInto(offset, target);
    return target;
  }

  async readInto(offset: number, target: Uint8Array): Promise<void> {
    this.#checkRange(offset, target.byteLength);
    const known = this.#first.subarray(offset, offset + target.byteLength);
    target.set(known);
    let done = known.byteLength;
    if (done === target.byteLength) return;
    await withRetries(this.#file, async (progress) => {
      const url = this.#direct ?? this.#file.url;
      try {
        const answer = await request(this.#file, url, offset + done, offset + target.byteLength);
        await this.#checkAnswer(answer, offset + done);
        await fill(this.#file, answer.response, target, done, false, (bytes) => {
          done += bytes;
          progress(bytes);
        });
        if (answer.url !== this.#file.url) this.#direct = answer.url;
      } catch (error) {
        this.#direct = undefined;
        throw error;
      }
    });
  }

  async #checkAnswer(answer: HubAnswer, start: number): Promise<void> {
    const { response, firstHeaders } = answer;
    if (!response.ok) throw await this.#file.http.toError(answer, this.#file);
    const range = response.headers.get("content-range") ?? "";
    const [, from, total] = /^bytes ([0-9]+)-[0-9]+\/([0-9]+)$/.exec(range) ?? [];
    const id = contentIdOf(firstHeaders);
    const problem =
      response.status !== 206 || from === undefined
        ? `the hub sends the whole file (status ${response.status}) where a part was asked for`
        : Number(from) !== start
          ? `the hub sends bytes from ${from} where ${start} was asked for`
          : Number(total) !== this.sizeBytes || (id !== undefined && id !== (this.contentId ?? id))
            ? "the file changed while it was read"
            : undefined;
    if (problem === undefined) return;
    await response.body?.cancel();
    throw corrupt(this.#file, problem);
  }

  #checkRange(offset: number, length: number): void {
    if (offset >= 0 && length >= 0 && offset + length <= this.sizeBytes) return;
    throw new TransportError(
      "invalid",
      `${this.#file.doing}: ${length} bytes from ${offset} are not within its ${this.sizeBytes}`,
      { path: this.#file.path },
    );
  }
}

function request(file: HubFile, url: string, start: number, end: number): Promise<HubAnswer> {
  return file.http.ask({
    doing: file.doing,
    path: file.path,
    url,
    signal: file.signal,
    headers: { Range: `bytes=${start}-${end - 1}`, "Accept-Encoding": "identity" },
  });
}

/** Puts the body at `at`. With `isLonger` what follows is left in the line. */
async function fill(
  file: HubFile,
  response: Response,
  target: Uint8Array,
  at: number,
  isLonger: boolean,
  progress: (bytes: number) => void,
): Promise<void> {
  const reader = response.body?.getReader();
  let position = at;
  try {
    while (reader !== undefined) {
      if (isLonger && position === target.byteLength) return;
      const { done, value } = await reader.read();
      if (done) break;
      const room = target.byteLength - position;
      if (value.byteLength > room && !isLonger) throw corrupt(file, "more bytes came than were asked for");
      const taken = value.byteLength > room ? value.subarray(0, room) : value;
      target.set(taken, position);
      position += taken.byteLength;
      progress(taken.byteLength);
    }
  } finally {
    await reader?.cancel().catch(() => undefined);
  }
  if (position < target.byteLength)
    throw corrupt(file, `the answer ended ${target.byteLength - position} bytes early`);
}

async function withRetries<T>(
  { retry, signal }: HubFile,
  attempt: (progress: (bytes: number) => void) => Promise<T>,
): Promise<T> {
  for (let failures = 0; ; ) {
    try {
      return await attempt(() => {
        failures = 0;
      });
    } catch (error) {
      failures++;
      if (!isWorthAnother(error) || failures >= retry.attempts) throw error;
      const asked = error.retryAfterMs ?? 0;
      if (asked > PAUSES.maxMs) throw error;
      await retry.sleep(backoffMs(failures, PAUSES, retry.random, asked), signal);
    }
  }
}

function isWorthAnother(error: unknown): error is TransportError {
  return error instanceof TransportError && (error.problem === "unavailable" || error.problem === "corrupt");
}

function contentIdOf(headers: Headers): string | undefined {
  const tag = headers.get("x-linked-etag") ?? headers.get("etag") ?? "";
  return /^(?:W\/)?"?([0-9a-f]{64}|[0-9a-f]{40})"?$/.exec(tag)?.[1];
}

function corrupt({ doing, path }: HubFile, reason: string): TransportError {
  return new TransportError("corrupt", `${doing}: ${reason}`, { path });
}
