// The repository in a folder: the contract, and what only it promises.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll } from "vitest";
import { FolderTransport } from "../../../src/distributed/transports/folder.node.js";
import { describeTransport } from "./contract-suite.js";

const base = mkdtempSync(join(tmpdir(), "folder-transport-"));
const opened: FolderTransport[] = [];
let count = 0;
afterAll(async () => {
  for (const transport of opened) await transport.close();
  rmSync(base, { recursive: true, force: true });
});

const newRoot = () => join(base, `repository ${count++}`);

function connect(root: string, options: { keepCommits?: number; keepMs?: number } = {}): FolderTransport {
  const transport = new FolderTransport({ root, retention: options });
  opened.push(transport);
  return transport;
}

describeTransport("folder", async () => {
  const root = newRoot();
  return { connect: () => connect(root) };
});
