// A run computed again from its repository: what is right is verified, every lie is found, and what is gone is said.

import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { diskSurroundings, sha256Hasher } from "../../../src/distributed/node/aggregator-disk.node.js";
import { sha256Of } from "../../../src/distributed/node/aggregator-surroundings.js";
import { type RunCheck, verifyRun } from "../../../src/distributed/node/run-verify.js";
import type { MergeSettings } from "../../../src/distributed/protocol/master-contract.js";
import { TransportError } from "../../../src/distributed/transports/errors.js";
import { deltaFile, FakeRepository, start } from "../aggregator/repository.js";
import { f32 } from "../states.js";

const folder = mkdtempSync(join(tmpdir(), "verify-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const weights = [f32("w", 1, -2, 0.5)];
const tokens = (count: number) => ({ extra: { tokens: String(count) } });

/** Three rounds of two nodes, weighted by tokens. */
async function threeRounds(settings: Partial<MergeSettings> = {}): Promise<FakeRepository> {
  const repository = new FakeRepository();
  const merge = { merge: "tokens" as const, quorum: 2, stalenessDiscount: 0.9, ...settings };
  const { aggregator } = await start({ repository, weights, settings: merge });
  for (let round = 1; round <= 3; round++) {
    const base = { localStep: round, baseOuterStep: round - 1 };
    repository.write({
      [`nodes/a/delta_${round}.safetensors`]: await deltaFile(
        { nodeId: "a", ...base, ...tokens(300) },
        f32("w", 1, round, -0.25),
      ),
      [`nodes/b/delta_${round}.safetensors`]: await deltaFile(
        { nodeId: "b", ...base, ...tokens(100) },
        f32("w", -0.125, 2, round / 3),
      ),
    });
    await aggregator.runUntil({ rounds: 1 });
  }
  return repository;
}

const verify = async (repository: FakeRepository) =>
  verifyRun({ transport: repository, surroundings: await diskSurroundings(folder) });

const kinds = ({ versions }: RunCheck) => versions.map(({ verdict }) => verdict.kind);
const verdictOf = ({ versions }: RunCheck, outerStep: number) =>
  versions.find((version) => version.outerStep === outerStep)!.verdict;

/** Changes a JSON document, and the hash of it in the version record, as a dishonest master would. */
function rewrite(
  repository: FakeRepository,
  path: string,
  hashKey: string,
  change: (text: string) => string,
) {
  const text = change(repository.text(path));
  expect(text).not.toBe(repository.text(path));
  const record = JSON.parse(repository.text("global/step_count.json"));
  record[hashKey] = sha256Of(sha256Hasher, text);
  repository.write({ [path]: text, "global/step_count.json": JSON.stringify(record) });
}

function flipBit(repository: FakeRepository, path: string): void {
  const bytes = repository.files.get(path)!.slice();
  bytes[bytes.length - 3]! ^= 1;
  repository.write({ [path]: bytes });
}

describe("a run that is right", () => {
  test("every version with a round is verified; nothing stays on disk", async () => {
    const repository = await threeRounds();
    const check = await verify(repository);
    expect(check).toMatchObject({ outerStep: 3, documents: [] });
    expect(kinds(check)).toEqual(["unverifiable", "verified", "verified", "verified"]);
    expect(verdictOf(check, 0)).toEqual({
      kind: "unverifiable",
      reason: "no round made it: a run begins with it; its weights are as recorded",
    });
    expect(
      readdirSync(folder, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile()),
    ).toEqual([]);
    expect(repository.commits.length).toBe(4);
  });

  test("the plain mean of a Python-like merge as well", async () => {
    expect(kinds(await verify(await threeRounds({ merge: "python" }))).slice(1)).toEqual([
      "verified",
      "verified",
      "verified",
    ]);
  });

  test("what retention took cannot be verified, and is no difference", async () => {
    const repository = await threeRounds();
    repository.write({
      "nodes/a/delta_1.safetensors": null,
      "global/step_000000.safetensors": null,
      "global/momentum_000002.safetensors": null,
    });
    const check = await verify(repository);
    expect(check.documents).toEqual([]);
    expect(
      check.versions.map(({ verdict }) => (verdict.kind === "unverifiable" ? verdict.reason : verdict.kind)),
    ).toEqual([
      "no round made it: a run begins with it; its weights are no longer kept",
      "global/step_000000.safetensors, its parent's weights, is no longer kept",
      "verified",
      "global/momentum_000002.safetensors, its parent's momentum, is no longer kept",
    ]);
    repository.write({ "global/step_000002.safetensors": null, "nodes/b/delta_2.safetensors": null });
    expect(verdictOf(await verify(repository), 2)).toEqual({
      kind: "unverifiable",
      reason: "1 of 2 deltas are no longer kept (nodes/b/delta_2.safetensors)",
    });
  });

  test("a version whose own weights are gone is verified by their hash", async () => {
    const repository = await threeRounds();
    repository.write({ "global/step_000002.safetensors": null });
    expect(kinds(await verify(repository))).toEqual(["unverifiable", "verified", "verified", "unverifiable"]);
  });
});

describe("a run that is not", () => {
  test("a flipped bit in published weights: that version differs, the next cannot be computed from it", async () => {
    const repository = await threeRounds();
    flipBit(repository, "global/step_000002.safetensors");
    const check = await verify(repository);
    expect(kinds(check)).toEqual(["unverifiable", "verified", "differs", "unverifiable"]);
    expect(verdictOf(check, 2)).toEqual({
      kind: "differs",
      differences: [
        expect.stringMatching(/^global\/step_000002\.safetensors has SHA-256 .{12}…, recorded is /),
      ],
    });
    expect(verdictOf(check, 3)).toMatchObject({
      reason: expect.stringMatching(/its parent's weights, differs$/),
    });
  });

  test("weights that no round gives, with every hash made to fit", async () => {
    const repository = await threeRounds();
    const path = "global/step_000003.safetensors";
    const before = sha256Of(sha256Hasher, repository.files.get(path)!);
    flipBit(repository, path);
    const bytes = repository.files.get(path)!;
    repository.write({ "global/latest.safetensors": bytes });
    const after = sha256Of(sha256Hasher, bytes);
    rewrite(repository, "global/history.json", "history_sha256", (text) => text.replaceAll(before, after));
    const record = JSON.parse(repository.text("global/step_count.json"));
    repository.write({ "global/step_count.json": JSON.stringify({ ...record, model_sha256: after }) });
    const check = await verify(repository);
    expect(check.documents).toEqual([]);
    expect(verdictOf(check, 3)).toEqual({
      kind: "differs",
      differences: [expect.stringMatching(/^computed weights have SHA-256 /)],
    });
  });

  test("a wrong weight: in the history alone, and in the ledger too", async () => {
    const repository = await threeRounds();
    const wrong = (text: string) => text.replaceAll(/("weight": ?)0\.75\b/g, "$10.74");
    rewrite(repository, "global/history.json", "history_sha256", wrong);
    const verdict = verdictOf(await verify(repository), 1);
    expect(verdict).toEqual({
      kind: "differs",
      differences: [
        "nodes/a/delta_1.safetensors has the weight 0.74 in the history, 0.75 in the ledger",
        expect.stringMatching(/^computed weights have/),
        expect.stringMatching(/^computed momentum buffers have/),
      ],
    });
    rewrite(repository, "global/ledger.json", "ledger_sha256", wrong);
    const check = await verify(repository);
    expect(verdictOf(check, 1)).toMatchObject({
      differences: [expect.stringMatching(/^computed weights/), expect.stringMatching(/^computed momentum/)],
    });
    expect(kinds(check).slice(1)).toEqual(["differs", "differs", "differs"]);
  });

  test("another rate than the one that was used", async () => {
    const repository = await threeRounds();
    rewrite(repository, "global/history.json", "history_sha256", (text) =>
      text.replaceAll('"lr": 0.7', '"lr": 0.6'),
    );
    const check = await verify(repository);
    expect(kinds(check).slice(1)).toEqual(["differs", "differs", "differs"]);
    expect(check.documents).toEqual(["outer_lr is 0.7 in the version record, 0.6 in the history"]);
  });

  test("a delta that was replaced is not the one that was counted", async () => {
    const repository = await threeRounds();
    flipBit(repository, "nodes/a/delta_2.safetensors");
    expect(verdictOf(await verify(repository), 2)).toEqual({
      kind: "unverifiable",
      reason: "nodes/a/delta_2.safetensors holds another delta now",
    });
  });

  test("a ledger that counts more or less than the rounds", async () => {
    const repository = await threeRounds();
    rewrite(repository, "global/ledger.json", "ledger_sha256", (text) =>
      text.replace('"outer_step":2', '"outer_step":1'),
    );
    const check = await verify(repository);
    expect(verdictOf(check, 1)).toEqual({
      kind: "differs",
      differences: ["the ledger counts nodes/a/delta_2.safetensors in it, the history does not"],
    });
    expect(verdictOf(check, 2)).toEqual({
      kind: "differs",
      differences: ["nodes/a/delta_2.safetensors is in its round, but the ledger does not say so"],
    });
  });

  test("documents whose hash is not the recorded one, and another latest", async () => {
    const repository = await threeRounds();
    repository.write({
      "global/ledger.json": `${repository.text("global/ledger.json")} `,
      "global/latest.safetensors": repository.files.get("global/step_000002.safetensors")!,
    });
    const check = await verify(repository);
    expect(check.documents).toEqual([
      expect.stringMatching(/global\/ledger\.json has SHA-256 /),
      "global/latest.safetensors is not the newest version's global/step_000003.safetensors",
    ]);
    expect(kinds(check)).toEqual(["unverifiable", "verified", "verified", "verified"]);
  });

  test("a version record that is none", async () => {
    const repository = await threeRounds();
    repository.write({ "global/step_count.json": "[]" });
    expect(await verify(repository)).toMatchObject({
      outerStep: undefined,
      documents: [expect.stringMatching(/must be a JSON object/)],
      versions: [],
    });
  });
});

describe("little to look at", () => {
  test("no version yet", async () => {
    expect(await verify(new FakeRepository())).toMatchObject({
      outerStep: undefined,
      documents: [],
      versions: [],
    });
  });

  test("a Python master's run has no history", async () => {
    const repository = await threeRounds();
    const { outer_step, model_file, updated_at } = JSON.parse(repository.text("global/step_count.json"));
    const record = JSON.stringify({ outer_step, model_file, updated_at });
    repository.write({
      "global/step_count.json": record,
      "global/history.json": null,
      "global/ledger.json": null,
    });
    expect(await verify(repository)).toMatchObject({ outerStep: 3, documents: [], versions: [] });
  });

  test("trouble of the network is no verdict; content that the repository itself finds damaged is one", async () => {
    const repository = await threeRounds();
    const open = repository.open.bind(repository);
    let problem: "unavailable" | "corrupt" = "unavailable";
    repository.open = async (revision, path) => {
      if (path === "global/step_000001.safetensors") throw new TransportError(problem, "bad luck");
      return open(revision, path);
    };
    await expect(verify(repository)).rejects.toMatchObject({ code: "transport.unavailable", exitCode: 6 });
    problem = "corrupt";
    expect(verdictOf(await verify(repository), 1)).toMatchObject({
      differences: ["global/step_000001.safetensors is damaged: bad luck"],
    });
  });
});
