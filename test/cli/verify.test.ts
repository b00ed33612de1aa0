// `speedtronic verify`: exit codes and words. What is compared is tested in test/distributed/run-verify.

import { createHash } from "node:crypto";
import { chmodSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import type { Transport } from "../../src/distributed/index.js";
import { deltaMetadata } from "../../src/distributed/index.js";
import { encodeSafetensors, openSafetensors } from "../../src/formats/safetensors/index.js";
import { meetings, REPO, startAggregator, startHub } from "./fleet.js";
import { cli, sampleText, scratchFolder, writeTinyConfig } from "./harness.js";

async function put(transport: Transport, path: string, bytes: Uint8Array): Promise<void> {
  const content = {
    sizeBytes: bytes.byteLength,
    async *chunks() {
      yield bytes;
    },
  };
  const parent = await transport.head();
  await transport.commit({ parent, message: "test", operations: [{ kind: "put", path, content }] });
}

async function fileOf(transport: Transport, path: string): Promise<Uint8Array> {
  return (await transport.read(await transport.head(), path, 2 ** 24))!;
}

/** Two rounds of one node. */
async function publishedRun(kind: keyof typeof meetings) {
  const fleet = await meetings[kind]();
  const transport = fleet.connect();
  await transport.create();
  const config = writeTinyConfig(scratchFolder(), sampleText);
  const aggregator = await startAggregator(transport, config);
  const reader = await openSafetensors(
    await transport.open(await transport.head(), "global/latest.safetensors"),
  );
  const entries = [...reader.entries.values()];
  await reader.close();
  for (const round of [1, 2]) {
    const tensors = entries.map(({ name, shape }) => {
      const size = shape.reduce((product, length) => product * length, 1);
      return { name, dtype: "F32" as const, shape, data: new Float32Array(size).fill(round / 8) };
    });
    const metadata = deltaMetadata({ nodeId: "a", localStep: round, baseOuterStep: round - 1 });
    await put(transport, `nodes/a/delta_${round}.safetensors`, encodeSafetensors(tensors, metadata));
    await aggregator.runUntil({ rounds: 1 });
  }
  return { fleet, repo: fleet.repo, transport };
}

describe("verify", () => {
  it.each(["hub", "folder"] as const)("verifies a good run: exit code 0 (%s)", async (kind) => {
    const { fleet, repo, transport } = await publishedRun(kind);
    const { code, out, err } = await fleet.cli(["verify", repo]);
    expect({ code, err }).toEqual({ code: 0, err: "" });
    expect(out.split("\n")).toEqual([
      transport.title,
      "version 0  cannot be verified: no round made it: a run begins with it; its weights are as recorded",
      "version 1  verified from 1 delta",
      "version 2  verified from 1 delta",
      "2 versions verified, 1 cannot be",
      "",
    ]);
  });

  it.each(["hub", "folder"] as const)(
    "finds a flipped bit of published weights: exit code 1 (%s)",
    async (kind) => {
      const { fleet, repo, transport } = await publishedRun(kind);
      const path = "global/step_000002.safetensors";
      const bytes = (await fileOf(transport, path)).slice();
      bytes[bytes.length - 1]! ^= 1;
      await put(transport, path, bytes);
      const text = await fleet.cli(["verify", repo]);
      expect({ code: text.code, err: text.err }).toEqual({ code: 1, err: "" });
      expect(text.out).toMatch(/\nDIFFERS: global\/latest\.safetensors is not the newest version's/);
      expect(text.out).toMatch(
        /\nversion 2 {2}DIFFERS: global\/step_000002\.safetensors has SHA-256 \S+ recorded is /,
      );
      expect(text.out).toMatch(
        /\n1 version verified, 1 version DIFFERS, 1 difference in the run's documents, 1 cannot be\n$/,
      );
      const { code, out } = await fleet.cli(["verify", repo, "--json"]);
      expect(code).toBe(1);
      expect(JSON.parse(out)).toMatchObject({
        repository: transport.title,
        outer_step: 2,
        documents: [expect.any(String)],
        versions: [
          { outer_step: 0, verdict: "unverifiable", reason: expect.any(String), differences: [] },
          { outer_step: 1, verdict: "verified", reason: null, deltas: 1 },
          { outer_step: 2, verdict: "differs", differences: [expect.stringMatching(/step_000002/)] },
        ],
      });
    },
  );

  it("finds a bit that a disk flipped", async () => {
    const { fleet, repo, transport } = await publishedRun("folder");
    const bytes = await fileOf(transport, "global/step_000001.safetensors");
    const sha256 = createHash("sha256").update(bytes).digest("hex");
    const root = repo.slice("file:".length);
    const blobs = readdirSync(root, { recursive: true, encoding: "utf8" }).filter((file) =>
      file.includes(sha256),
    );
    expect(blobs.length).toBeGreaterThan(0);
    for (const blob of blobs) {
      const damaged = Buffer.from(bytes);
      damaged[damaged.length - 1]! ^= 1;
      chmodSync(join(root, blob), 0o600);
      writeFileSync(join(root, blob), damaged);
    }
    const { code, out } = await fleet.cli(["verify", repo]);
    expect(code).toBe(1);
    expect(out).toMatch(/\nversion 1 {2}DIFFERS: global\/step_000001\.safetensors /);
    expect(out).toMatch(
      /\nversion 2 {2}cannot be verified: global\/step_000001\.safetensors, its parent's weights, differs\n/,
    );
  });

  it("says so where nothing can be verified: exit code 0", async () => {
    const hub = await startHub();
    const transport = hub.connect();
    await transport.create();
    expect(await hub.cli(["verify", REPO])).toMatchObject({
      code: 0,
      out: expect.stringMatching(/\nnothing could be verified: there is no version yet\n$/),
    });
    await put(transport, "global/step_count.json", new TextEncoder().encode('{"outer_step": 4}'));
    await put(transport, "global/latest.safetensors", Uint8Array.of(1));
    expect(await hub.cli(["verify", REPO])).toMatchObject({
      code: 0,
      out: expect.stringMatching(
        /\nversion 4 {2}cannot be verified: its master publishes no history of rounds\nnothing could be verified\n$/,
      ),
    });
  });

  it("ends with 6 where nobody answers or nothing is there, and with 2 for wrong flags", async () => {
    const hub = await startHub();
    expect(await hub.cli(["verify", REPO])).toMatchObject({ code: 6, out: "" });
    expect(await cli(["verify", REPO], { env: { HF_ENDPOINT: "http://127.0.0.1:9" } })).toMatchObject({
      code: 6,
      out: "",
    });
    expect(await hub.cli(["verify"])).toMatchObject({ code: 2 });
    expect(await hub.cli(["verify", REPO, "--jason"])).toMatchObject({
      code: 2,
      err: expect.stringMatching(/--json/),
    });
  });
});
