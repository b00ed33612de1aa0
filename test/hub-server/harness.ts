// A hub in a folder of its own, called without sockets, and the few requests that most tests begin with.

import { createHash } from "node:crypto";
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach } from "vitest";
import { createHubServer, type HubServer, type HubServerOptions } from "../../src/hub-server/index.js";

export const ALICE = `hf_${"a".repeat(30)}`;
export const BOB = `hf_${"b".repeat(30)}`;
export const READER = `hf_${"r".repeat(30)}`;

const cleanUps: (() => Promise<void> | void)[] = [];
afterEach(async () => {
  for (const cleanUp of cleanUps.splice(0).reverse()) await cleanUp();
});

export function scratch(): string {
  const folder = mkdtempSync(join(tmpdir(), "speedtronic-hub-"));
  cleanUps.push(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** alice may write `lab/*`, bob `bob/*`, and the reader may read everything. */
export function writeTokens(folder: string): string {
  const path = join(folder, "tokens.txt");
  const lines = [`alice write ${ALICE} lab/*,alice/*`, `bob write ${BOB} bob/*`, `reader read ${READER}`];
  writeFileSync(path, `# who may do what\n${lines.join("\n")}\n`, { mode: 0o600 });
  return path;
}

export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  // biome-ignore lint/suspicious/noExplicitAny: answers are compared as they come
  readonly json: any;
}

export class TestHub {
  readonly server: HubServer;
  readonly root: string;

  constructor(server: HubServer, root: string) {
    this.server = server;
    this.root = root;
  }

  async ask(
    path: string,
    init: Omit<RequestInit, "body"> & { readonly token?: string; readonly body?: unknown } = {},
  ): Promise<Answer> {
    const { token, headers, body, ...rest } = init;
    const isPlain =
      typeof body === "object" && body !== null && Object.getPrototypeOf(body) === Object.prototype;
    const response = await this.server.app.request(path, {
      ...rest,
      ...(body === undefined ? {} : { body: isPlain ? JSON.stringify(body) : (body as BodyInit) }),
      headers: {
        ...(token === undefined ? {} : { Authorization: `Bearer ${token}` }),
        ...(headers as object),
      },
      ...(body instanceof ReadableStream ? { duplex: "half" } : {}),
    } as RequestInit);
    const text = await response.text();
    let json: unknown;
    try {
      json = JSON.parse(text);
    } catch {
      json = undefined;
    }
    return { status: response.status, headers: response.headers, text, json };
  }

  post(path: string, body: unknown, token?: string): Promise<Answer> {
    return this.ask(path, {
      method: "POST",
      body: body as object,
      ...(token === undefined ? {} : { token }),
    });
  }

  create(
    id: string,
    options: { readonly token?: string; readonly isPrivate?: boolean; readonly type?: string } = {},
  ) {
    const [organization, name] = id.split("/");
    const { token, isPrivate, type } = options;
    return this.post(
      "/api/repos/create",
      {
        organization,
        name,
        ...(type === undefined ? {} : { type }),
        ...(isPrivate ? { visibility: "private" } : {}),
      },
      token,
    );
  }

  commit(id: string, lines: readonly object[], header: object = {}, token?: string): Promise<Answer> {
    const all = [{ key: "header", value: { summary: "a change", ...header } }, ...lines];
    return this.post(
      `/api/models/${id}/commit/main`,
      all.map((line) => JSON.stringify(line)).join("\n"),
      token,
    );
  }

  async head(id: string): Promise<string> {
    return (await this.ask(`/api/models/${id}`)).json.sha;
  }

  async files(id: string): Promise<string[]> {
    const { json } = await this.ask(`/api/models/${id}/tree/main?recursive=true`);
    return json
      .filter((item: { type: string }) => item.type === "file")
      .map((item: { path: string }) => item.path);
  }

  /** What is left of uploads that did not end well. */
  leftovers(): string[] {
    return readdirSync(join(this.root, "staging"));
  }
}

export async function openHub(options: Partial<HubServerOptions> = {}): Promise<TestHub> {
  const root = options.root ?? join(scratch(), "hub");
  const server = await createHubServer({ ...options, root });
  cleanUps.push(() => server.close({ graceMs: 100 }));
  return new TestHub(server, root);
}

/** With a repository `lab/run` that holds nothing yet. */
export async function openHubWithRepo(options: Partial<HubServerOptions> = {}): Promise<TestHub> {
  const hub = await openHub(options);
  await hub.create("lab/run");
  return hub;
}

export function file(path: string, content: string | Uint8Array): object {
  return {
    key: "file",
    value: { path, content: Buffer.from(content).toString("base64"), encoding: "base64" },
  };
}

export function sha256(content: string | Uint8Array): string {
  return createHash("sha256").update(content).digest("hex");
}

/** Uploads and commits one LFS file. */
export async function commitLfs(
  hub: TestHub,
  id: string,
  path: string,
  content: Uint8Array,
): Promise<Answer> {
  const oid = sha256(content);
  const objects = [{ oid, size: content.byteLength }];
  const { json } = await hub.post(`/${id}.git/info/lfs/objects/batch`, { operation: "upload", objects });
  const href = json.objects[0].actions?.upload.href;
  if (href !== undefined) await hub.ask(href, { method: "PUT", body: content });
  return hub.commit(id, [{ key: "lfsFile", value: { path, algo: "sha256", oid, size: content.byteLength } }]);
}
