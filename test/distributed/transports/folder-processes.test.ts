// A folder repository that real processes share: no commit is lost, and one that is killed in the middle of a commit
// leaves either that commit, whole, or nothing of it.

import { spawn } from "node:child_process";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import type { Transport } from "../../../src/distributed/transports/contract.js";
import { FolderTransport } from "../../../src/distributed/transports/folder.node.js";
import { FolderHistory } from "../../../src/distributed/transports/folder-history.node.js";
import { FolderStore } from "../../../src/distributed/transports/folder-store.node.js";
import { threefry2x32 } from "../../../src/util/rng.js";
import { temporaryFolder } from "../../checkpoint/fixtures.js";
import { put } from "./content.js";

interface Child {
  lines(): readonly string[];
  waitForLine(prefix: string): Promise<string>;
  /** What `wait` waits for. */
  go(): void;
  readonly ended: Promise<NodeJS.Signals | number | null>;
}

function startChild(root: string, name: string, commits: number, killAt = 0, mode = ""): Child {
  const program = join(import.meta.dirname, "folder-child.ts");
  const values = [root, name, String(commits), String(killAt), mode];
  const child = spawn(process.execPath, ["--import", "tsx", program, ...values], {
    stdio: ["pipe", "pipe", "inherit"],
  });
  let text = "";
  child.stdout.setEncoding("utf8").on("data", (chunk: string) => {
    text += chunk;
  });
  // Who was killed reads no more.
  child.stdin.on("error", () => undefined);
  const lines = () => text.split("\n").slice(0, -1);
  return {
    lines,
    go: () => child.stdin.end("go"),
    ended: new Promise((resolve) => child.once("close", (code, signal) => resolve(signal ?? code))),
    waitForLine: (prefix) =>
      new Promise((resolve, reject) => {
        const look = () => {
          const line = lines().find((candidate) => candidate.startsWith(prefix));
          if (line !== undefined) resolve(line);
        };
        child.stdout.on("data", look);
        child.once("close", () => reject(new Error(`no line "${prefix}": ${lines().join(" | ")}`)));
        look();
      }),
  };
}

/** Messages of all commits, oldest first, each checked to be the parent of the next. */
async function historyOf(root: string): Promise<readonly string[]> {
  const history = new FolderHistory(new FolderStore(root));
  const numbers = await history.numbers();
  expect(numbers).toEqual(numbers.map((_, i) => i + 1));
  const messages: string[] = [];
  let parent: string | undefined;
  for (const number of numbers) {
    const revision = await history.revisionAt(number);
    const record = await history.record(revision ?? "");
    expect(record.parent).toBe(parent);
    messages.push(record.message);
    parent = revision;
  }
  return messages;
}

async function read(transport: Transport, path: string): Promise<string | undefined> {
  const bytes = await transport.read(await transport.head(), path, 1 << 20);
  return bytes === undefined ? undefined : new TextDecoder().decode(bytes);
}

/** Whole contents by path: a damaged or missing one rejects. */
async function filesOf(transport: Transport): Promise<Readonly<Record<string, string | undefined>>> {
  const found = await transport.list(await transport.head(), "");
  const entries = found.map(async ({ path }) => [path, await read(transport, path)] as const);
  return Object.fromEntries(await Promise.all(entries));
}

async function newRepository() {
  const root = join(await temporaryFolder(), "repository");
  const transport = new FolderTransport({ root });
  await transport.create();
  return { root, transport };
}

test("two processes at work on one folder lose no commit of each other", async () => {
  const { root, transport } = await newRepository();
  // Past the 64th commit, whose record holds the whole tree.
  const each = 32;
  const children = ["a", "b"].map((name) => startChild(root, name, each, 0, "wait"));
  const heads = await Promise.all(children.map((child) => child.waitForLine("head ")));
  // Both have read the same head: one of them must lose.
  expect(heads[0]).toBe(heads[1]);
  for (const child of children) child.go();
  expect(await Promise.all(children.map(({ ended }) => ended))).toEqual([0, 0]);
  const conflicts = children.map((child) =>
    Number(
      child
        .lines()
        .find((line) => line.startsWith("conflicts "))
        ?.slice("conflicts ".length),
    ),
  );
  expect(conflicts.reduce((sum, one) => sum + one, 0)).toBeGreaterThan(0);

  const [first, ...messages] = await historyOf(root);
  expect(first).toBe("initial commit");
  const wanted = ["a", "b"].flatMap((name) => Array.from({ length: each }, (_, i) => `${name} ${i}`));
  expect([...messages].sort()).toEqual([...wanted].sort());
  const { "shared.txt": shared, ...own } = await filesOf(transport);
  expect(shared).toBe(messages.map((message) => `${message}\n`).join(""));
  expect(own).toEqual(Object.fromEntries(wanted.map((line) => [`${line.replace(" ", "/")}.txt`, line])));
  const reported = children.flatMap((child) => child.lines().filter((line) => line.startsWith("made ")));
  expect(reported.map((line) => line.split(" ")[2])).toContain(await transport.head());
  await transport.close();
  expect(readdirSync(join(root, "tmp"))).toEqual([]);
});

test("a process that is killed while it commits leaves that commit whole or nothing of it", async () => {
  const whole = await newRepository();
  const calm = startChild(whole.root, "a", 2);
  expect(await calm.ended).toBe(0);
  const changes = (await calm.waitForLine("changes ")).split(" ").slice(1);
  const second = changes.indexOf("link") + 1;
  const link = changes.indexOf("link", second) + 1;
  expect([second > 0, link > second, changes.length > link]).toEqual([true, true, true]);

  // Around the moment that decides, and drawn ones within the second commit.
  const drawn = Array.from({ length: 6 }, (_, i) => {
    const word = threefry2x32([20, 26], i, 0)[0];
    return second + 1 + (word % (changes.length - second));
  });
  const outcomes = new Map<number, number>();
  for (const killAt of new Set([link, link + 1, ...drawn])) {
    const { root, transport } = await newRepository();
    const child = startChild(root, "a", 2, killAt);
    expect([killAt, await child.ended]).toEqual([killAt, "SIGKILL"]);
    const reported = child.lines().filter((line) => line.startsWith("made ")).length;
    const messages = (await historyOf(root)).slice(1);
    expect(messages).toEqual(["a 0", "a 1"].slice(0, messages.length));
    expect(messages.length).toBeGreaterThanOrEqual(Math.max(1, reported));
    outcomes.set(killAt, messages.length);
    expect(await filesOf(transport)).toEqual({
      ...Object.fromEntries(messages.map((line) => [`${line.replace(" ", "/")}.txt`, line])),
      "shared.txt": messages.map((message) => `${message}\n`).join(""),
    });

    const next = await transport.commit({
      parent: await transport.head(),
      message: "after",
      operations: [put("after.txt", "after")],
    });
    expect(await transport.head()).toBe(next);
    expect(await historyOf(root)).toEqual(["initial commit", ...messages, "after"]);
    // What the dead one left goes with time; what a commit names stays.
    const later = new FolderTransport({ root, retention: { keepMs: -60_000 } });
    await later.collect();
    expect(readdirSync(join(root, "tmp"))).toEqual([]);
    const blobs = readdirSync(join(root, "blobs"), { recursive: true, encoding: "utf8" });
    expect(blobs.filter((name) => name.includes("."))).toHaveLength(2 * messages.length + 1);
    expect(await read(later, "shared.txt")).toBe(messages.map((message) => `${message}\n`).join(""));
    await later.close();
    await transport.close();
  }
  expect([outcomes.get(link), outcomes.get(link + 1)]).toEqual([1, 2]);
  await whole.transport.close();
});
