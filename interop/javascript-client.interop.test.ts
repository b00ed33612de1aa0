// The unmodified @huggingface/hub against the hub server: the suite of test/hub-server, and a download that is cut.

import "../test/hub-server/javascript-client.test.js";

import { randomBytes } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createRepo, downloadFile, uploadFile } from "@huggingface/hub";
import { expect, it } from "vitest";
import { createHubServer, type RequestLogEntry } from "../src/hub-server/index.js";
import { cuttingRelay } from "./cutting-relay.js";

it("@huggingface/hub goes on with a download that was cut", async () => {
  const root = mkdtempSync(join(tmpdir(), "speedtronic-hub-javascript-"));
  const log: RequestLogEntry[] = [];
  const server = await createHubServer({ root, onRequest: (entry) => log.push(entry) });
  const relay = await cuttingRelay(await server.listen(), 2 ** 20);
  try {
    const at = { hubUrl: relay.endpoint, repo: { type: "model", name: "lab/run" } } as const;
    const bytes = randomBytes(3 * 2 ** 20);
    await createRepo({ ...at, accessToken: `hf_${"a".repeat(30)}` });
    await uploadFile({ ...at, file: { path: "large.bin", content: new Blob([bytes]) } });
    const blob = (await downloadFile({ ...at, path: "large.bin" }))!;
    const parts: Uint8Array[] = [];
    const readAll = async (from: Blob) => {
      for await (const part of from.stream() as unknown as AsyncIterable<Uint8Array>) parts.push(part);
    };
    await expect(readAll(blob)).rejects.toThrow();
    const received = Buffer.concat(parts).byteLength;
    expect(received).toBeGreaterThan(0);
    expect(received).toBeLessThan(bytes.byteLength);
    await readAll(blob.slice(received));
    expect(Buffer.concat(parts).equals(bytes)).toBe(true);
    expect(log.some(({ path, status }) => path.endsWith("/large.bin") && status === 206)).toBe(true);
  } finally {
    relay.close();
    await server.close({ graceMs: 1000 });
    rmSync(root, { recursive: true, force: true });
  }
});
