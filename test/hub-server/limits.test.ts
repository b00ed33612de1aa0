// Too much, too long, without end: refused while it arrives, and nothing of it stays.

import { describe, expect, it } from "vitest";
import { checkHubStore, type HubLimits } from "../../src/hub-server/index.js";
import { file, openHubWithRepo, sha256, type TestHub } from "./harness.js";

const small: Partial<HubLimits> = {
  maxFileBytes: 2000,
  maxInlineFileBytes: 1000,
  maxCommitBytes: 4000,
  maxCommitOperations: 5,
  maxRepoFiles: 6,
  maxJsonBytes: 2000,
  lfsThresholdBytes: 500,
  stallTimeoutMs: 100,
};

async function expectUntouched(hub: TestHub): Promise<void> {
  expect(await hub.files("lab/run")).toEqual([]);
  expect(hub.leftovers()).toEqual([]);
  expect(await checkHubStore(hub.root)).toMatchObject({ commits: 1, blobs: 0, problems: [] });
}

/** Gives pieces for as long as anybody takes them, and tells how many were taken. */
function endless(piece: string, first = ""): { body: ReadableStream<Uint8Array>; taken: () => number } {
  let count = 0;
  const body = new ReadableStream<Uint8Array>(
    {
      pull(controller) {
        controller.enqueue(Buffer.from(count === 0 ? first + piece : piece));
        count += 1;
        // A server that takes everything would never let the test end.
        if (count > 10_000) controller.close();
      },
    },
    { highWaterMark: 0 },
  );
  return { body, taken: () => count };
}

const header = `${JSON.stringify({ key: "header", value: { summary: "s" } })}\n`;
const tooLarge = [413, "TooLarge"];
const outcome = ({ status, headers }: { status: number; headers: Headers }) => [
  status,
  headers.get("x-error-code"),
];
const commitPath = "/api/models/lab/run/commit/main";

describe("security: too much", () => {
  it.each([
    ["a file inside a commit", [file("a", "x".repeat(1001))]],
    ["a commit", [file("a", "x".repeat(1000)), file("b", "y".repeat(1000)), file("c", "z".repeat(1000))]],
    ["operations", Array.from({ length: 6 }, (_, index) => file(`f${index}`, "x"))],
  ])("of %s", async (_, lines) => {
    const hub = await openHubWithRepo({ limits: small });
    expect(outcome(await hub.commit("lab/run", lines))).toEqual(tooLarge);
    await expectUntouched(hub);
  });

  it("of files in a revision", async () => {
    const hub = await openHubWithRepo({ limits: small });
    const names = (from: number, count: number) =>
      Array.from({ length: count }, (_, i) => file(`f${from + i}`, "x"));
    expect((await hub.commit("lab/run", names(0, 5))).status).toBe(200);
    expect((await hub.commit("lab/run", names(5, 2))).status).toBe(413);
    expect(await hub.files("lab/run")).toHaveLength(5);
  });

  it("of a description", async () => {
    const hub = await openHubWithRepo();
    expect(outcome(await hub.commit("lab/run", [], { description: "x".repeat(300_000) }))).toEqual(tooLarge);
    expect((await hub.commit("lab/run", [], { summary: "x".repeat(501) })).status).toBe(400);
    await expectUntouched(hub);
  });

  it("of a JSON body", async () => {
    const hub = await openHubWithRepo({ limits: small });
    const body = { files: [{ path: "a", size: 1, sample: "x".repeat(2000) }] };
    expect(outcome(await hub.post("/api/models/lab/run/preupload/main", body))).toEqual(tooLarge);
    expect(outcome(await hub.post("/api/repos/create", { name: "x".repeat(2000) }))).toEqual(tooLarge);
    expect(outcome(await hub.post("/api/validate-yaml", { content: "x".repeat(2000) }))).toEqual(tooLarge);
  });

  it("of an LFS file is told by the batch", async () => {
    const hub = await openHubWithRepo({ limits: small });
    const { json } = await hub.post("/lab/run.git/info/lfs/objects/batch", {
      operation: "upload",
      objects: [{ oid: "0".repeat(64), size: 2001 }],
    });
    expect(json.objects).toEqual([
      {
        oid: "0".repeat(64),
        size: 2001,
        error: { code: 413, message: expect.stringMatching(/2001 bytes.*2000/) },
      },
    ]);
  });

  it("that is announced is refused unread", async () => {
    const hub = await openHubWithRepo({ limits: small });
    const { body, taken } = endless("x");
    const answer = await hub.ask(commitPath, { method: "POST", body, headers: { "Content-Length": "4001" } });
    expect([...outcome(answer), taken()]).toEqual([...tooLarge, 0]);
  });

  it("is refused with a compressed body, which could hold anything", async () => {
    const hub = await openHubWithRepo();
    const answer = await hub.ask(commitPath, {
      method: "POST",
      body: header,
      headers: { "Content-Encoding": "gzip" },
    });
    expect(answer.status).toBe(415);
  });
});

describe("security: without end", () => {
  it.each([
    ["lines", "\n", header],
    ["a content", "A".repeat(100), `${header}{"key":"file","value":{"path":"a","content":"`],
    ["a path", "a".repeat(100), `${header}{"key":"file","value":{"path":"`],
    ["brackets", "[".repeat(100), header],
    ["operations", `${JSON.stringify(file("a", "x"))}\n`, header],
  ])("%s in a commit", async (_, piece, first) => {
    const hub = await openHubWithRepo({ limits: { ...small, maxCommitOperations: 1000 } });
    const { body, taken } = endless(piece, first);
    expect(outcome(await hub.ask(commitPath, { method: "POST", body }))).toEqual(tooLarge);
    expect(taken()).toBeLessThan(4100);
    await expectUntouched(hub);
  });

  it("an LFS upload", async () => {
    const hub = await openHubWithRepo({ limits: small });
    const objects = [{ oid: sha256("x"), size: 50 }];
    const { json } = await hub.post("/lab/run.git/info/lfs/objects/batch", { operation: "upload", objects });
    const { body, taken } = endless("0123456789");
    const answer = await hub.ask(json.objects[0].actions.upload.href, { method: "PUT", body });
    expect(outcome(answer)).toEqual(tooLarge);
    expect(taken()).toBeLessThan(10);
    await expectUntouched(hub);
  });

  it("a question", async () => {
    const hub = await openHubWithRepo({ limits: small });
    const { body, taken } = endless("0123456789");
    expect(outcome(await hub.ask("/api/repos/create", { method: "POST", body }))).toEqual(tooLarge);
    expect(taken()).toBeLessThan(210);
  });
});

describe("security: too long", () => {
  it("without a byte ends the request", async () => {
    const hub = await openHubWithRepo({ limits: small });
    const body = new ReadableStream<Uint8Array>({
      start: (controller) =>
        controller.enqueue(Buffer.from(`${header}{"key":"file","value":{"path":"a","content":"AAAA`)),
    });
    expect(outcome(await hub.ask(commitPath, { method: "POST", body }))).toEqual([408, "Stalled"]);
    await expectUntouched(hub);
  });

  it("is no reason as long as bytes come", async () => {
    const hub = await openHubWithRepo({ limits: small });
    const text = `${header}${JSON.stringify(file("a", "slow"))}`;
    let at = 0;
    const body = new ReadableStream<Uint8Array>({
      async pull(controller) {
        await new Promise((resolve) => setTimeout(resolve, 40));
        if (at >= text.length) return controller.close();
        controller.enqueue(Buffer.from(text.slice(at, at + 20)));
        at += 20;
      },
    });
    expect((await hub.ask(commitPath, { method: "POST", body })).status).toBe(200);
    expect((await hub.ask("/lab/run/resolve/main/a")).text).toBe("slow");
  });
});
