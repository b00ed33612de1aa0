// A server that is killed again and again while clients commit, and what must hold afterwards.

import { expect } from "vitest";
import { checkHubStore } from "../../src/hub-server/index.js";
import { startCli } from "../cli/harness.js";
import { file, sha256 } from "./harness.js";

interface Acknowledged {
  readonly id: string;
  readonly path: string;
}

/** A small generator whose numbers follow from the seed (mulberry32). */
function randomNumbers(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** Serves `root` in a process of its own until `work` is done, then kills it with SIGKILL. */
async function withDoomedServer(root: string, work: (endpoint: string) => Promise<void>): Promise<void> {
  const server = startCli(["hub", "serve", "--root", root, "--port", "0", "--quiet"]);
  await server.waitFor("HF_ENDPOINT=");
  const endpoint = /HF_ENDPOINT=(\S+)/.exec(server.stdout())![1]!;
  try {
    await work(endpoint);
  } finally {
    server.child.kill("SIGKILL");
    await server.ended;
  }
}

/** Commits until the server is gone, one file per commit, half of them by LFS. */
async function writer(
  endpoint: string,
  name: string,
  random: () => number,
  acknowledged: Acknowledged[],
  stop: { isOver: boolean },
): Promise<void> {
  for (let count = 0; !stop.isOver; count++) {
    const path = `${name}/${count}-${Math.floor(random() * 1e9)}`;
    const content = Buffer.alloc(1 + Math.floor(random() * 300_000), path);
    try {
      const lines: object[] = [{ key: "header", value: { summary: path } }];
      if (count % 2 === 0) lines.push(file(path, content));
      else {
        const oid = sha256(content);
        const answer = await fetch(`${endpoint}/lab/run.git/info/lfs/objects/batch`, {
          method: "POST",
          body: JSON.stringify({ operation: "upload", objects: [{ oid, size: content.byteLength }] }),
        });
        const { objects } = (await answer.json()) as {
          objects: { actions?: { upload: { href: string } } }[];
        };
        const href = objects[0]?.actions?.upload.href;
        if (href !== undefined) await fetch(href, { method: "PUT", body: content });
        lines.push({ key: "lfsFile", value: { path, algo: "sha256", oid, size: content.byteLength } });
      }
      const answer = await fetch(`${endpoint}/api/models/lab/run/commit/main`, {
        method: "POST",
        body: lines.map((line) => JSON.stringify(line)).join("\n"),
      });
      if (answer.status !== 200) throw new Error(`commit answered ${answer.status}: ${await answer.text()}`);
      acknowledged.push({ id: ((await answer.json()) as { commitOid: string }).commitOid, path });
    } catch (error) {
      // The kill cuts connections; anything else is a fault.
      if (!(error instanceof TypeError || error instanceof SyntaxError)) throw error;
      if (!stop.isOver) await new Promise((resolve) => setTimeout(resolve, 1));
    }
  }
}

/**
 * Kills the server `kills` times at random moments under three writers. After every kill the store must be sound;
 * at the end every acknowledged commit must be in the history and its file at the head.
 */
export async function killAgainAndAgain(root: string, kills: number, seed: number): Promise<number> {
  const random = randomNumbers(seed);
  const acknowledged: Acknowledged[] = [];
  for (let kill = 0; kill < kills; kill++) {
    const stop = { isOver: false };
    let writers: Promise<unknown> = Promise.resolve();
    await withDoomedServer(root, async (endpoint) => {
      if (kill === 0) {
        const body = JSON.stringify({ organization: "lab", name: "run" });
        await fetch(`${endpoint}/api/repos/create`, { method: "POST", body });
      }
      writers = Promise.all(
        [0, 1, 2].map((index) => writer(endpoint, `w${index}`, random, acknowledged, stop)),
      );
      await new Promise((resolve) => setTimeout(resolve, 20 + random() * 500));
      // The writers see a dead server before they are told to end: a lost answer must not count as one.
      setTimeout(() => {
        stop.isOver = true;
      }, 20);
    });
    await writers;
    expect((await checkHubStore(root)).problems).toEqual([]);
  }
  await withDoomedServer(root, async (endpoint) => {
    const history = new Set<string>();
    let next: string | undefined = `${endpoint}/api/models/lab/run/commits/main`;
    while (next !== undefined) {
      const answer: Response = await fetch(next);
      for (const { id } of (await answer.json()) as { id: string }[]) history.add(id);
      next = /<([^>]+)>/.exec(answer.headers.get("link") ?? "")?.[1];
    }
    expect(acknowledged.filter(({ id }) => !history.has(id))).toEqual([]);
    const info = (await (await fetch(`${endpoint}/api/models/lab/run`)).json()) as {
      siblings: { rfilename: string }[];
    };
    const present = new Set(info.siblings.map(({ rfilename }) => rfilename));
    expect(acknowledged.filter(({ path }) => !present.has(path))).toEqual([]);
  });
  return acknowledged.length;
}
