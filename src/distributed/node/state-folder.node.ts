// Where a node keeps its state, and who it is: <root>/<node_id>/<repository>/{global,outgoing,…}, locked for one
// process. A node without a name of its own gets a random one, which stays. Node only.

import { randomBytes } from "node:crypto";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { type LockHolder, lockFolder } from "../../util/folder-lock.node.js";
import { makeFolders } from "../../util/folders.node.js";
import { checkNodeId, nodeIdProblem } from "../wire/index.js";
import { NodeError } from "./errors.js";
import type { Outbox } from "./outbox.js";
import { diskOutbox } from "./outbox.node.js";

const ID_FILE = "node-id";

export interface StateFolder {
  readonly nodeId: string;
  /** `<root>/<node_id>/<repository>`. */
  readonly path: string;
  readonly outbox: Outbox;
  /** Folder for files that can be had again. */
  readonly cachePath: string;
  /** Gives the folder free. Harmless when called twice. */
  release(): Promise<void>;
}

/**
 * Opens the state of one node for one repository.
 * @throws WireError `wire.invalid_node_id`; NodeError `node.locked` naming the process that has it, `node.state_folder`.
 */
export async function openStateFolder(options: {
  readonly root: string;
  /** Null: the random id that `root` keeps. */
  readonly nodeId: string | null;
  /** A transport's `key`. */
  readonly repoKey: string;
}): Promise<StateFolder> {
  const { root, repoKey } = options;
  const nodeId = options.nodeId === null ? await persistentNodeId(root) : checkNodeId(options.nodeId);
  const home = join(root, nodeId);
  try {
    makeFolders(home);
  } catch (cause) {
    throw unusable(home, cause);
  }
  const lock = await lockFolder(home, {
    heldError: (holder) => lockedError(nodeId, holder),
    unreadableError: unusable,
  });
  try {
    const path = join(home, repoKey);
    const outbox = await diskOutbox(path);
    const cachePath = join(path, "cache", "deltas");
    makeFolders(cachePath);
    return { nodeId, path, outbox, cachePath, release: () => lock.release() };
  } catch (error) {
    await lock.release();
    throw error;
  }
}

/** The id that `root` remembers, made on first use: `node-` and eight hexadecimal digits. */
export async function persistentNodeId(root: string): Promise<string> {
  const file = join(root, ID_FILE);
  try {
    makeFolders(root);
    // Only one of several processes makes it; the others read it.
    await writeFile(file, `node-${randomBytes(4).toString("hex")}\n`, { flag: "wx" });
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code !== "EEXIST") throw unusable(file, cause);
  }
  const nodeId = (await readFile(file, "utf8")).trim();
  const problem = nodeIdProblem(nodeId);
  if (problem === undefined) return nodeId;
  throw new NodeError(
    "state_folder",
    `${file}: the node id in it ${problem}; remove the file to get a new id`,
    {
      details: { path: file },
    },
  );
}

function lockedError(nodeId: string, { path, pid, host, lockedAt, liveness, isThisProcess }: LockHolder) {
  const who = isThisProcess ? "this process itself" : `process ${pid}`;
  const message =
    liveness === "alive"
      ? `node "${nodeId}" is run by ${who} since ${lockedAt} (${path}); stop that one, or give this node another distributed.node_id`
      : `node "${nodeId}" was started at ${lockedAt} by process ${pid} on ${host}, where this process cannot look; if that ` +
        `one has ended, remove ${path}, else give this node another distributed.node_id`;
  return new NodeError("locked", message, { details: { path, nodeId, pid, host, lockedAt } });
}

function unusable(path: string, cause: unknown): NodeError {
  const reason = cause instanceof Error ? cause.message : String(cause);
  return new NodeError(
    "state_folder",
    `${path}: the node's state cannot be kept there (${reason}); check permissions, or choose another distributed.state_dir`,
    { details: { path }, cause },
  );
}
