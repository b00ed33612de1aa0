// Commits of contents whose hash is known: what is asked of the hub, what is sent, and what stays in memory meanwhile.

import { createHash } from "node:crypto";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { afterEach, expect, test } from "vitest";
import type { FileContent } from "../../../src/distributed/transports/contract.js";
import { HubTransport } from "../../../src/distributed/transports/hub.js";
import { HubHttp } from "../../../src/distributed/transports/hub-http.js";
import {
  createHubServer,
  type HubServerOptions,
  type RequestLogEntry,
} from "../../../src/hub-server/index.js";
import { scratch } from "../../hub-server/harness.js";

const closers: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});

async function start(limits: HubServerOptions["limits"] = {}) {
  const log: RequestLogEntry[] = [];
  const server = await createHubServer({
    root: scratch(),
    onRequest: (entry) => log.push(entry),
    limits: { lfsThresholdBytes: MIB, ...limits },
  });
  closers.push(() => server.close());
  const hub = new HubTransport({ endpoint: await server.listen(), repo: "lab/run" });
  closers.push(() => hub.close());
  await hub.create();
  const uploads = () => log.filter(({ method }) => method === "PUT").length;
  return { hub, log, uploads };
}

const MIB = 2 ** 20;
const hashOf = (bytes: Uint8Array | undefined) =>
  createHash("sha256")
    .update(bytes ?? "")
    .digest("hex");

function known(bytes: Uint8Array): FileContent {
  return {
    sizeBytes: bytes.byteLength,
    sha256: hashOf(bytes),
    async *chunks() {
      for (let at = 0; at < bytes.byteLength; at += MIB) yield bytes.subarray(at, at + MIB);
    },
  };
}

const put = (path: string, content: FileContent) => ({ kind: "put" as const, path, content });
const large = (seed: number) => new Uint8Array(3 * MIB + 17).map((_, i) => (i * 31 + (i >> 8) + seed) & 255);

test("a content is sent once for all its paths, and not again with a later commit", async () => {
  const { hub, uploads } = await start();
  const [a, b] = [large(1), large(2)];
  const first = await hub.commit({
    parent: await hub.head(),
    message: "a version\n\nwith more to say",
    operations: [
      put("global/step_000001.safetensors", known(a)),
      put("global/latest.safetensors", known(a)),
      put("global/momentum_000001.safetensors", known(b)),
      put("global/step_count.json", known(new TextEncoder().encode('{"outer_step": 1}\n'))),
    ],
  });
  expect(uploads()).toBe(2);
  const read = (revision: string, path: string) => hub.read(revision, path, 8 * MIB);
  expect(hashOf(await read(first, "global/step_000001.safetensors"))).toBe(hashOf(a));
  expect(hashOf(await read(first, "global/latest.safetensors"))).toBe(hashOf(a));
  expect(hashOf(await read(first, "global/momentum_000001.safetensors"))).toBe(hashOf(b));
  expect(new TextDecoder().decode(await read(first, "global/step_count.json"))).toBe('{"outer_step": 1}\n');
  const second = await hub.commit({
    parent: first,
    message: "the same under another name",
    operations: [
      put("global/copy.safetensors", known(a)),
      { kind: "delete", path: "global/latest.safetensors" },
    ],
  });
  expect(uploads()).toBe(2);
  expect(hashOf(await read(second, "global/copy.safetensors"))).toBe(hashOf(a));
  expect(await read(second, "global/latest.safetensors")).toBeUndefined();
});

test("a publication is one commit, and the content is not read to be hashed", async () => {
  const { hub, log } = await start();
  const parent = await hub.head();
  log.length = 0;
  let reads = 0;
  const content = known(large(3));
  const counted: FileContent = {
    ...content,
    chunks: () => {
      reads++;
      return content.chunks();
    },
  };
  await hub.commit({ parent, message: "one", operations: [put("nodes/n/delta_1.safetensors", counted)] });
  expect(log.filter(({ path, method }) => method === "POST" && path.includes("/commit/"))).toHaveLength(1);
  // For the sample that tells text from the rest, and for the upload.
  expect(reads).toBe(2);
});

test("a content with another hash than it was said to have is refused, and nothing is committed", async () => {
  const { hub } = await start();
  const parent = await hub.head();
  const lie = { ...known(large(4)), sha256: "0".repeat(64) };
  await expect(
    hub.commit({ parent, message: "a lie", operations: [put("nodes/n/delta_1.safetensors", lie)] }),
  ).rejects.toMatchObject({ problem: "invalid", message: expect.stringContaining("nodes/n/delta_1") });
  expect(await hub.head()).toBe(parent);
});

test("a file above the hub's limit is refused before a byte of it is sent", async () => {
  const { hub, uploads } = await start({ maxFileBytes: 2 * MIB });
  const operations = [put("nodes/n/delta_1.safetensors", known(large(5)))];
  await expect(
    hub.commit({ parent: await hub.head(), message: "too much", operations }),
  ).rejects.toMatchObject({ problem: "invalid", message: expect.stringContaining("413") });
  expect(uploads()).toBe(0);
});

test("while a large file is sent, only a few of its pieces are in memory", async () => {
  setFlagsFromString("--expose-gc");
  const collect = runInNewContext("gc") as () => void;
  const { hub } = await start();
  const pieces = 48;
  const piece = (i: number) => new Uint8Array(MIB).fill(i);
  const hash = createHash("sha256");
  for (let i = 0; i < pieces; i++) hash.update(piece(i));
  const made: WeakRef<Uint8Array>[] = [];
  let mostAlive = 0;
  const content: FileContent = {
    sizeBytes: pieces * MIB,
    sha256: hash.digest("hex"),
    async *chunks() {
      for (let i = 0; i < pieces; i++) {
        if (i % 8 === 7) {
          await new Promise((resolve) => setImmediate(resolve));
          collect();
          mostAlive = Math.max(mostAlive, made.filter((one) => one.deref() !== undefined).length);
        }
        const bytes = piece(i);
        made.push(new WeakRef(bytes));
        yield bytes;
      }
    },
  };
  const operations = [put("nodes/n/delta_1.safetensors", content)];
  await hub.commit({ parent: await hub.head(), message: "large", operations });
  expect(mostAlive).toBeGreaterThan(0);
  expect(mostAlive).toBeLessThanOrEqual(6);
});

test("an upload that is sent elsewhere arrives there whole", async () => {
  const received: { url: string; bytes: Buffer }[] = [];
  const server = createServer((request, response) => {
    const parts: Buffer[] = [];
    request.on("data", (part: Buffer) => parts.push(part));
    request.on("end", () => {
      received.push({ url: request.url!, bytes: Buffer.concat(parts) });
      if (request.url === "/here") response.writeHead(307, { Location: "/there" }).end();
      else response.end("done");
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  closers.push(
    () =>
      new Promise((resolve) => {
        server.closeAllConnections();
        server.close(resolve);
      }),
  );
  const endpoint = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const http = new HubHttp({ endpoint });
  const bytes = large(6);
  const body = new Blob([bytes]);
  const answer = await http.ask({ doing: "sending", url: `${endpoint}/here`, method: "PUT", body });
  expect(await answer.response.text()).toBe("done");
  const last = received.at(-1)!;
  expect(last.url).toBe("/there");
  expect(last.bytes.equals(bytes)).toBe(true);
});
