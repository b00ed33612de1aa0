// One commit by requests of our own, for contents whose SHA-256 is known (the Hub's client would read each of them
// once more to hash it): nothing is hashed here, and a content is sent once, whatever the number of its paths, and only
// if the hub does not have it. Large files by git-lfs, transfer "basic".

import { parseForeignJson } from "../../util/json-depth.js";
import type { CallOptions, CommitRequest, FileContent, RepoOperation } from "./contract.js";
import { TransportError } from "./errors.js";
import { contentBlob } from "./hub-blob.js";
import type { HubCommitTarget } from "./hub-commit.js";
import type { HubRequest } from "./hub-http.js";
import { readText, withoutSecrets } from "./hub-text.js";

interface KnownContent extends FileContent {
  readonly sha256: string;
}
type KnownPut = { readonly kind: "put"; readonly path: string; readonly content: KnownContent };
type KnownOperation = KnownPut | Extract<RepoOperation, { kind: "delete" }>;

export interface KnownCommitRequest extends CommitRequest {
  readonly operations: readonly KnownOperation[];
}

/** Files asked about in one request. */
const FILES_PER_REQUEST = 100;
/** What the hub looks at to tell text from the rest. */
const SAMPLE_BYTES = 512;
/** Uploads at a time: one is sent while the hub makes the other durable. */
const PARALLEL_UPLOADS = 2;
const MAX_ANSWER_BYTES = 1 << 22;
const LFS_JSON = "application/vnd.git-lfs+json";

export function isKnownCommit(request: CommitRequest): request is KnownCommitRequest {
  return request.operations.every(
    (operation) => operation.kind === "delete" || operation.content.sha256 !== undefined,
  );
}

/** Rejects as `commitToHub` does. */
export async function commitKnownContents(
  target: HubCommitTarget,
  request: KnownCommitRequest,
  { signal }: CallOptions,
): Promise<string> {
  const session = new Session(target, signal);
  const puts = request.operations.filter((operation) => operation.kind === "put");
  const large = await session.largeFiles(puts);
  await session.upload(puts.filter(({ path }) => large.has(path)));
  return session.commit(request, large);
}

class Session {
  readonly #target: HubCommitTarget;
  readonly #signal: AbortSignal | undefined;
  readonly #doing: string;

  constructor(target: HubCommitTarget, signal: AbortSignal | undefined) {
    this.#target = target;
    this.#signal = signal;
    this.#doing = `committing to ${target.title}`;
  }

  /** Paths of the files that the hub wants to have on their own. */
  async largeFiles(puts: readonly KnownPut[]): Promise<ReadonlySet<string>> {
    const large = new Set<string>();
    for (let at = 0; at < puts.length; at += FILES_PER_REQUEST) {
      const files: object[] = [];
      for (const { path, content } of puts.slice(at, at + FILES_PER_REQUEST)) {
        const sample = base64(await firstBytes(content, SAMPLE_BYTES));
        files.push({ path, size: content.sizeBytes, sample });
      }
      const answer = await this.#postJson(this.#api("preupload"), { files });
      for (const file of listOf(answer, "files", this.#doing)) {
        if (file.uploadMode === "lfs" && typeof file.path === "string") large.add(file.path);
      }
    }
    return large;
  }

  /** Each content once, and only what the hub asks for. */
  async upload(puts: readonly KnownPut[]): Promise<void> {
    const contents = new Map(puts.map((put) => [put.content.sha256, put]));
    if (contents.size === 0) return;
    const { http, repo, branch } = this.#target;
    const answer = await this.#postJson(
      `${http.endpoint}/${repo}.git/info/lfs/objects/batch`,
      {
        operation: "upload",
        transfers: ["basic"],
        hash_algo: "sha_256",
        ref: { name: branch },
        objects: [...contents].map(([oid, { content }]) => ({ oid, size: content.sizeBytes })),
      },
      { Accept: LFS_JSON, "Content-Type": LFS_JSON },
    );
    const tasks = listOf(answer, "objects", this.#doing).values();
    const ending = new AbortController();
    const signal =
      this.#signal === undefined ? ending.signal : AbortSignal.any([this.#signal, ending.signal]);
    const work = async () => {
      for (const object of tasks) {
        const put = typeof object.oid === "string" ? contents.get(object.oid) : undefined;
        if (put === undefined) throw this.#odd("the hub asks for a file that it was not told of");
        await this.#uploadOne(put, object, signal).catch((error: unknown) => {
          ending.abort(error);
          throw error;
        });
      }
    };
    const results = await Promise.allSettled(Array.from({ length: PARALLEL_UPLOADS }, work));
    for (const result of results) if (result.status === "rejected") throw result.reason;
  }

  async #uploadOne(
    { path, content }: KnownPut,
    object: Readonly<Record<string, unknown>>,
    signal: AbortSignal,
  ): Promise<void> {
    const doing = `uploading ${path} to ${this.#target.title}`;
    if (object.error !== undefined) {
      const { code, message } = fieldsOf(object.error);
      const said = typeof message === "string" ? withoutSecrets(message).slice(0, 200) : "without a reason";
      throw new TransportError("invalid", `${doing}: the hub refuses the file (${String(code)}: ${said})`, {
        path,
      });
    }
    const { upload, verify } = fieldsOf(object.actions);
    // It is there already.
    if (upload === undefined) return;
    const to = actionOf(upload);
    if (to === undefined) throw this.#odd("the hub does not say where to send a file");
    await this.#ask({
      doing,
      path,
      url: to.href,
      method: "PUT",
      headers: to.headers,
      // The address is the permission.
      isAnonymous: true,
      body: contentBlob(content, path),
      signal,
    });
    const at = verify === undefined ? undefined : actionOf(verify);
    if (at === undefined) return;
    const text = JSON.stringify({ oid: content.sha256, size: content.sizeBytes });
    const headers = { Accept: LFS_JSON, "Content-Type": LFS_JSON, ...at.headers };
    await this.#ask({ doing, path, url: at.href, method: "POST", headers, body: text, signal });
  }

  /** The revision that was made. */
  async commit(request: KnownCommitRequest, large: ReadonlySet<string>): Promise<string> {
    const [summary = "", ...rest] = request.message.split("\n");
    const description = rest.join("\n").trim();
    const lines: object[] = [
      { key: "header", value: { summary, description, parentCommit: request.parent } },
    ];
    for (const operation of request.operations) {
      const { path } = operation;
      if (operation.kind === "delete") {
        lines.push({ key: "deletedFile", value: { path } });
      } else if (large.has(path)) {
        const { sha256, sizeBytes } = operation.content;
        lines.push({ key: "lfsFile", value: { path, algo: "sha256", oid: sha256, size: sizeBytes } });
      } else {
        const content = base64(new Uint8Array(await contentBlob(operation.content, path).arrayBuffer()));
        lines.push({ key: "file", value: { path, content, encoding: "base64" } });
      }
    }
    const text = await this.#ask({
      doing: this.#doing,
      isCommit: true,
      url: this.#api("commit"),
      method: "POST",
      headers: { "Content-Type": "application/x-ndjson" },
      body: lines.map((line) => JSON.stringify(line)).join("\n"),
    }).catch((error: unknown) => {
      // The answer was on its way.
      if (this.#signal?.aborted === true || !(error instanceof TransportError)) throw error;
      if (error.problem !== "corrupt") throw error;
      throw this.#unclear(error.message);
    });
    const oid = parseObject(text)?.commitOid;
    if (typeof oid === "string" && /^[0-9a-f]{40,64}$/.test(oid)) return oid;
    throw this.#unclear("the answer names no commit");
  }

  #api(what: string): string {
    const { http, repo, branch } = this.#target;
    return `${http.endpoint}/api/models/${repo}/${what}/${encodeURIComponent(branch)}`;
  }

  async #postJson(
    url: string,
    body: object,
    headers: Record<string, string> = { "Content-Type": "application/json" },
  ): Promise<Readonly<Record<string, unknown>>> {
    const request = { doing: this.#doing, url, method: "POST", headers, body: JSON.stringify(body) };
    const answer = parseObject(await this.#ask(request));
    if (answer === undefined) throw this.#odd("the hub's answer is not a JSON object");
    return answer;
  }

  /** The text of an answer that is a success. */
  async #ask(request: HubRequest): Promise<string> {
    const { http } = this.#target;
    const answer = await http.ask({ signal: this.#signal, ...request });
    if (!answer.response.ok) throw await http.toError(answer, request);
    const text = await readText(answer.response, MAX_ANSWER_BYTES);
    if (text === undefined) throw this.#odd(`the answer has more than ${MAX_ANSWER_BYTES} bytes`);
    return text;
  }

  #odd(reason: string): TransportError {
    return new TransportError("corrupt", `${this.#doing}: ${reason}`);
  }

  #unclear(reason: string): TransportError {
    return new TransportError(
      "ambiguous",
      `${this.#doing}: the hub's answer cannot be read (${reason}); the commit may have been made all the same`,
    );
  }
}

async function firstBytes(content: FileContent, most: number): Promise<Uint8Array> {
  const bytes = new Uint8Array(Math.min(most, content.sizeBytes));
  let at = 0;
  if (bytes.byteLength === 0) return bytes;
  for await (const chunk of content.chunks()) {
    const part = chunk.subarray(0, bytes.byteLength - at);
    bytes.set(part, at);
    at += part.byteLength;
    if (at === bytes.byteLength) break;
  }
  return bytes;
}

const BASE64_PART_BYTES = 3 * 2 ** 13;

function base64(bytes: Uint8Array): string {
  let text = "";
  for (let at = 0; at < bytes.byteLength; at += BASE64_PART_BYTES) {
    text += btoa(String.fromCharCode(...bytes.subarray(at, at + BASE64_PART_BYTES)));
  }
  return text;
}

function actionOf(
  value: unknown,
): { readonly href: string; readonly headers: Record<string, string> } | undefined {
  const { href, header } = fieldsOf(value);
  if (typeof href !== "string" || !/^https?:/.test(href) || !URL.canParse(href)) return undefined;
  const headers = Object.entries(fieldsOf(header)).map(([name, text]) => [name, String(text)]);
  return { href, headers: Object.fromEntries(headers) };
}

function listOf(
  answer: Readonly<Record<string, unknown>>,
  key: string,
  doing: string,
): readonly Readonly<Record<string, unknown>>[] {
  const list = answer[key];
  if (Array.isArray(list)) return list.map(fieldsOf);
  throw new TransportError("corrupt", `${doing}: the hub's answer has no list ${key}`);
}

function fieldsOf(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null ? (value as Readonly<Record<string, unknown>>) : {};
}

function parseObject(text: string): Readonly<Record<string, unknown>> | undefined {
  try {
    const value = parseForeignJson(text);
    return typeof value === "object" && value !== null
      ? (value as Readonly<Record<string, unknown>>)
      : undefined;
  } catch {
    return undefined;
  }
}
