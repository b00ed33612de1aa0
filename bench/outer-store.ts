// The store that every round of the outer benchmark begins with: a run at version 0 and a delta of each node. Made once
// through the hub, then copied for each round, with links for the contents, which a hub never writes to again.

import { type ChildProcessByStdio, spawn } from "node:child_process";
import { cpSync, createReadStream, linkSync, mkdirSync, readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import type { Readable, Writable } from "node:stream";
import { fileURLToPath } from "node:url";
import { Aggregator, diskSurroundings, HubTransport, nodeHub } from "../src/distributed/index.node.js";
import { openSafetensors, tensorStreams } from "../src/formats/safetensors/index.js";
import { fileSource, saveSafetensorsFile } from "../src/formats/safetensors/index.node.js";
import type { OuterFiles } from "./outer-data.js";

export const REPO = "bench/outer";

/** A request as the hub saw it. */
export interface HubRequest {
  readonly method: string;
  readonly path: string;
  readonly status: number;
}

export interface RunningHub {
  readonly endpoint: string;
  /** All requests so far. */
  readonly requests: readonly HubRequest[];
  stop(): Promise<void>;
}

const hubScript = fileURLToPath(new URL("outer-hub.mjs", import.meta.url));

/** Serves `root` in a process of its own. */
export async function startHub(root: string): Promise<RunningHub> {
  const child: ChildProcessByStdio<Writable, Readable, null> = spawn(process.execPath, [hubScript, root], {
    stdio: ["pipe", "pipe", "inherit"],
  });
  const exited = new Promise<void>((resolve) => {
    child.once("exit", () => resolve());
  });
  const requests: HubRequest[] = [];
  const lines = createInterface({ input: child.stdout });
  const endpoint = await new Promise<string>((resolve, reject) => {
    child.once("exit", (code) => reject(new Error(`the hub ended with ${code} before it listened`)));
    lines.on("line", (line) => {
      const value = JSON.parse(line) as HubRequest | { readonly endpoint: string };
      if ("endpoint" in value) resolve(value.endpoint);
      else requests.push(value);
    });
  });
  return {
    endpoint,
    requests,
    stop: async () => {
      child.stdin.end();
      await exited;
    },
  };
}

/**
 * Leaves a line in the hub's log, behind those of all requests that were answered before: what lies between two marks
 * is what happened between them. Returns its position.
 */
export async function mark({ endpoint, requests }: RunningHub, name: string): Promise<number> {
  const path = `/api/mark-${name}`;
  await (await fetch(endpoint + path)).arrayBuffer();
  for (;;) {
    const at = requests.findIndex((request) => request.path === path);
    if (at >= 0) return at;
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

function connect(endpoint: string): HubTransport {
  return new HubTransport({ endpoint, repo: REPO, ...nodeHub });
}

/** Makes the store in `root`; `scratch` is a folder for the work. */
export async function makeStore(
  root: string,
  scratch: string,
  files: OuterFiles,
  { lr, mu }: { readonly lr: number; readonly mu: number },
): Promise<void> {
  const hub = await startHub(root);
  const transport = connect(hub.endpoint);
  try {
    await Aggregator.start({
      transport,
      surroundings: await diskSurroundings(scratch),
      settings: {
        outerLr: lr,
        outerMomentum: mu,
        momentumWarmupRounds: 0,
        merge: "python",
        stalenessLimit: 10,
        stalenessDiscount: 1,
        clipFactor: null,
        quorum: files.deltas.length,
        graceMs: 1e9,
        keepVersions: 10,
      },
      masterId: "bench",
      pollIntervalMs: 1000,
      bootstrap: {
        writeState: async (sink) => {
          const source = await fileSource(files.state);
          const piece = new Uint8Array(2 ** 22);
          for (let at = 0; at < source.sizeBytes; at += piece.byteLength) {
            const part = piece.subarray(0, source.sizeBytes - at);
            await source.readInto(at, part);
            await sink.write(part);
          }
          await source.close();
        },
      },
    });
    for (const [i, path] of files.deltas.entries()) await sendDelta(transport, i, path);
  } finally {
    await transport.close();
    await hub.stop();
  }
}

/** Downloads the newest weights. */
export async function saveLatest(endpoint: string, path: string): Promise<void> {
  const transport = connect(endpoint);
  try {
    const source = await transport.open(await transport.head(), "global/latest.safetensors");
    const reader = await openSafetensors(source);
    await saveSafetensorsFile(path, tensorStreams(reader), {}, { durable: false });
  } finally {
    await transport.close();
  }
}

/** Basenames differ: a Python master keeps deltas by them. */
async function sendDelta(transport: HubTransport, index: number, localPath: string): Promise<void> {
  await transport.commit({
    parent: await transport.head(),
    message: `delta of node ${index}`,
    operations: [
      {
        kind: "put",
        path: `nodes/node-${index}/delta_${100 + index}.safetensors`,
        content: {
          sizeBytes: statSync(localPath).size,
          localPath,
          chunks: () => createReadStream(localPath),
        },
      },
    ],
  });
}

/** A store of its own with the same contents. */
export function copyStore(from: string, to: string): void {
  mkdirSync(to, { recursive: true });
  for (const entry of readdirSync(from, { withFileTypes: true })) {
    const [source, target] = [join(from, entry.name), join(to, entry.name)];
    if (entry.isDirectory()) copyStore(source, target);
    else if (/^[0-9a-f]{64}$/.test(entry.name)) linkSync(source, target);
    else cpSync(source, target);
  }
}
