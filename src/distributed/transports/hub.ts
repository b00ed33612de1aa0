// A repository on the official Hub or on any server that speaks its API: of a model, or of a dataset to read from. Reads
// are plain requests of our own; commits go through the Hub's client. State is read by commit, never by branch, except
// for the head itself.

import type { ByteSource } from "../../formats/safetensors/index.js";
import { parseForeignJson } from "../../util/json-depth.js";
import { compareCodePoints } from "../wire/order.js";
import type { CommitLog } from "./commit-log.js";
import type { CallOptions, CommitRequest, RepoFile, RepoOperation, Transport } from "./contract.js";
import { OFFICIAL_HUB } from "./endpoint.js";
import { TransportError } from "./errors.js";
import { CommitBudget } from "./hub-budget.js";
import { type BlobOf, commitToHub } from "./hub-commit.js";
import { type HubAnswer, HubHttp, type HubHttpOptions, type HubRequest } from "./hub-http.js";
import { checkContent, hubPath, pause, repositoryKey } from "./hub-names.js";
import { HubSource, type RetryRule } from "./hub-source.js";
import { readText } from "./hub-text.js";
import { nextPage, toCommitTimes, toRepoFiles } from "./hub-tree.js";
import { checkOperations } from "./paths.js";

export interface HubTransportOptions extends HubHttpOptions {
  /** `org/name`. */
  readonly repo: string;
  /** Default `model`. Datasets are read only. */
  readonly type?: "model" | "dataset" | undefined;
  readonly branch?: string | undefined;
  readonly budget?: CommitBudget | undefined;
  /** Default: as in HubSource, five attempts with growing pauses. */
  readonly retry?: Partial<RetryRule> | undefined;
  /** Whether large files may go through Xet if the hub offers it (default: only to the official one). */
  readonly useXet?: boolean | undefined;
  readonly blobOf?: BlobOf | undefined;
}

/** Paths asked about in one request. */
const PATHS_PER_REQUEST = 500;
/** A page of a listing has 1,000 entries of a few hundred bytes. */
const MAX_JSON_BYTES = 1 << 24;
const COMMIT_ID = /^[0-9a-f]{40,64}$/;

export class HubTransport implements Transport, CommitLog {
  readonly title: string;
  readonly key: string;
  readonly budget: CommitBudget;
  readonly #options: HubTransportOptions;
  readonly #http: HubHttp;
  readonly #api: string;
  readonly #content: string;
  readonly #branch: string;
  readonly #retry: RetryRule;

  constructor(options: HubTransportOptions) {
    const { endpoint, repo, type = "model" } = options;
    this.#options = options;
    this.#http = new HubHttp(options);
    this.#branch = options.branch ?? "main";
    this.#api = `${endpoint}/api/${type}s/${repo}`;
    // Models have no prefix in addresses of files.
    this.#content = type === "model" ? `${endpoint}/${repo}` : `${endpoint}/datasets/${repo}`;
    this.#retry = { attempts: 5, sleep: pause, random: Math.random, ...options.retry };
    this.title = `${repo} at ${endpoint}`;
    this.key = repositoryKey(endpoint, type === "model" ? repo : `datasets--${repo}`);
    this.budget = options.budget ?? new CommitBudget({ now: options.now });
  }

  async create({
    signal,
  }: CallOptions = {}): Promise<{ readonly created: boolean; readonly isPublic: boolean }> {
    const [organization, name] = this.#options.repo.split("/");
    const request: HubRequest = {
      doing: `creating ${this.title}`,
      url: `${this.#options.endpoint}/api/repos/create`,
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ name, organization, type: "model", visibility: "private" }),
      signal,
    };
    const answer = await this.#http.ask(request);
    const { status, ok } = answer.response;
    // Who may not create repositories may still be allowed to use one that is there.
    const isDenied = status === 401 || status === 403;
    if (!ok && status !== 409 && !isDenied) throw await this.#http.toError(answer, request);
    const refusal = isDenied ? await this.#http.toError(answer, request) : undefined;
    if (refusal === undefined) await answer.response.body?.cancel();
    try {
      const { private: isPrivate } = await this.#json({
        doing: `looking at ${this.title}`,
        url: `${this.#api}?expand[]=private`,
        signal,
      });
      return { created: ok, isPublic: isPrivate !== true };
    } catch (error) {
      const isHidden = error instanceof TransportError && /denied|not_found/.test(error.problem);
      throw isHidden ? (refusal ?? error) : error;
    }
  }

  async head({ known, signal }: CallOptions & { readonly known?: string | undefined } = {}): Promise<string> {
    const request: HubRequest = {
      doing: `reading the head of ${this.title}`,
      url: `${this.#api}/revision/${encodeURIComponent(this.#branch)}?expand[]=sha`,
      headers: known === undefined ? {} : { "If-None-Match": `"${known}"` },
      signal,
    };
    const answer = await this.#http.ask(request);
    if (answer.response.status === 304 && known !== undefined) return known;
    const { sha } = await this.#readJson(answer, request);
    if (typeof sha === "string" && COMMIT_ID.test(sha)) return sha;
    throw new TransportError("corrupt", `${request.doing}: the answer names no commit`);
  }

  async list(revision: string, prefix: string, { signal }: CallOptions = {}): Promise<readonly RepoFile[]> {
    const folder = prefix.slice(0, Math.max(0, prefix.lastIndexOf("/")));
    const where = folder === "" ? "" : `/${hubPath(folder)}`;
    const found: RepoFile[] = [];
    let url: string | undefined =
      `${this.#api}/tree/${encodeURIComponent(revision)}${where}?recursive=true&expand=false`;
    for (const seen = new Set<string>(); url !== undefined; ) {
      const request: HubRequest = { doing: `listing ${prefix} of ${this.title}`, url, path: folder, signal };
      if (seen.has(url)) throw new TransportError("corrupt", `${request.doing}: the pages go in a circle`);
      seen.add(url);
      const answer = await this.#http.ask(request);
      const { status, headers } = answer.response;
      if (status === 404 && headers.get("x-error-code") === "EntryNotFound" && folder !== "") {
        await answer.response.body?.cancel();
        return [];
      }
      found.push(...toRepoFiles(await this.#readJson(answer, request), request.doing));
      url = nextPage(headers.get("link"), answer.url);
    }
    return found
      .filter(({ path }) => path.startsWith(prefix))
      .sort((a, b) => compareCodePoints(a.path, b.path));
  }

  async read(
    revision: string,
    path: string,
    maxBytes: number,
    options: CallOptions = {},
  ): Promise<Uint8Array | undefined> {
    const source = await this.#source(revision, path, options);
    if (source === undefined) return undefined;
    if (source.sizeBytes > maxBytes) {
      const message = `${path} of ${this.title} has ${source.sizeBytes} bytes, at most ${maxBytes} are read`;
      throw new TransportError("invalid", message, { path });
    }
    const bytes = await source.read(0, source.sizeBytes);
    await checkContent(bytes, source.contentId, path);
    return bytes;
  }

  async open(revision: string, path: string, options: CallOptions = {}): Promise<ByteSource> {
    const source = await this.#source(revision, path, options);
    if (source !== undefined) return source;
    throw new TransportError("not_found", `${path}: ${this.title} has no such file at ${revision}`, { path });
  }

  async commit(request: CommitRequest, options: CallOptions = {}): Promise<string> {
    options.signal?.throwIfAborted();
    checkOperations(request.operations);
    if (!COMMIT_ID.test(request.parent)) {
      const parent = JSON.stringify(request.parent.slice(0, 80));
      throw new TransportError("conflict", `${this.title}: the parent ${parent} is not a commit there`);
    }
    const giveBack = this.budget.take(this.title);
    try {
      const operations = await this.#withoutVainDeletes(request, options);
      return await commitToHub(
        {
          http: this.#http,
          repo: this.#options.repo,
          branch: this.#branch,
          title: this.title,
          token: this.#options.token,
          useXet: this.#options.useXet ?? this.#options.endpoint === OFFICIAL_HUB,
          blobOf: this.#options.blobOf,
        },
        { ...request, operations },
        options,
      );
    } catch (error) {
      // Where it is unknown whether the commit was made, it counts.
      if (error instanceof TransportError && error.problem !== "ambiguous") giveBack();
      throw error;
    }
  }

  async commitTimes({
    sinceMs,
    limit,
    signal,
  }: CallOptions & { readonly sinceMs: number; readonly limit: number }): Promise<readonly number[]> {
    const times: number[] = [];
    let url: string | undefined = `${this.#api}/commits/${encodeURIComponent(this.#branch)}?limit=100`;
    while (url !== undefined && times.length < limit) {
      const request: HubRequest = { doing: `reading the commits of ${this.title}`, url, signal };
      const answer = await this.#http.ask(request);
      const page = toCommitTimes(await this.#readJson(answer, request), request.doing);
      const recent = page.filter((time) => time >= sinceMs);
      times.push(...recent);
      const isOver = page.length === 0 || recent.length < page.length;
      url = isOver ? undefined : nextPage(answer.response.headers.get("link"), answer.url);
    }
    return times.slice(0, limit);
  }

  async close(): Promise<void> {
    this.#http.close();
  }

  #source(revision: string, path: string, { signal }: CallOptions): Promise<HubSource | undefined> {
    return HubSource.open({
      http: this.#http,
      url: `${this.#content}/resolve/${encodeURIComponent(revision)}/${hubPath(path)}`,
      path,
      doing: `reading ${path} of ${this.title}`,
      signal,
      retry: this.#retry,
    });
  }

  /** A hub refuses the whole commit if a file to delete is not there. */
  async #withoutVainDeletes(
    { parent, operations }: CommitRequest,
    { signal }: CallOptions,
  ): Promise<readonly RepoOperation[]> {
    const paths = operations.filter(({ kind }) => kind === "delete").map(({ path }) => path);
    const present = new Set<string>();
    for (let at = 0; at < paths.length; at += PATHS_PER_REQUEST) {
      const request: HubRequest = {
        doing: `looking at files of ${this.title}`,
        url: `${this.#api}/paths-info/${parent}`,
        method: "POST",
        headers: { "Content-Type": "application/json" },
        body: JSON.stringify({ paths: paths.slice(at, at + PATHS_PER_REQUEST) }),
        signal,
      };
      const answer = await this.#http.ask(request);
      if (answer.response.headers.get("x-error-code") === "RevisionNotFound") {
        await answer.response.body?.cancel();
        throw new TransportError("conflict", `${this.title}: the parent ${parent} is not a commit there`);
      }
      const files = toRepoFiles(await this.#readJson(answer, request), request.doing);
      for (const { path } of files) present.add(path);
    }
    return operations.filter(({ kind, path }) => kind !== "delete" || present.has(path));
  }

  async #json(request: HubRequest): Promise<Readonly<Record<string, unknown>>> {
    return this.#readJson(await this.#http.ask(request), request);
  }

  async #readJson(answer: HubAnswer, request: HubRequest): Promise<Readonly<Record<string, unknown>>> {
    if (!answer.response.ok) throw await this.#http.toError(answer, request);
    const text = await readText(answer.response, MAX_JSON_BYTES);
    if (text === undefined)
      throw new TransportError(
        "corrupt",
        `${request.doing}: the answer has more than ${MAX_JSON_BYTES} bytes`,
      );
    try {
      const value = parseForeignJson(text);
      if (typeof value === "object" && value !== null) return value as Readonly<Record<string, unknown>>;
    } catch {
      // Said below.
    }
    const start = JSON.stringify(text.slice(0, 60));
    throw new TransportError("corrupt", `${request.doing}: the answer is not JSON but ${start}`);
  }
}
