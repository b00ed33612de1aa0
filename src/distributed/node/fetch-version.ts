// A version's weights onto this machine: copied, compared with size and hash, and looked through value by value, before
// anything in the model changes.

import type { SeenVersion } from "../protocol/worker-contract.js";
import type { Transport } from "../transports/contract.js";
import { TransportError } from "../transports/errors.js";
import { NodeError } from "./errors.js";
import { maxFileBytes } from "./max-file-bytes.js";
import { type ModelState, openRoomFile, verifyState } from "./model-state.js";
import type { FileRoom, NewHasher } from "./outbox.js";

const PIECE_BYTES = 2 ** 22;

/** Name in the node's `global` room. Content decides where the master tells a hash, else the revision. */
export function globalFileName({ outerStep, revision, modelSha256 }: SeenVersion): string {
  const tag = modelSha256?.slice(0, 16) ?? `at-${revision.replace(/[^A-Za-z0-9]/g, "").slice(0, 40)}`;
  return `step_${String(outerStep).padStart(6, "0")}-${tag}.safetensors`;
}

export interface FetchOptions {
  readonly room: FileRoom;
  /** The model that the weights are for. */
  readonly like: ModelState;
  readonly newHasher: NewHasher;
  readonly signal: AbortSignal;
}

/**
 * Leaves verified weights in the room under {@link globalFileName}, and at most one older version. A file that is there
 * already is used if its hash is right.
 * @throws TransportError; WireError, SafetensorsError, NodeError: the weights do not fit this node. Nothing stays then.
 */
export async function fetchVersion(
  transport: Transport,
  version: SeenVersion,
  { room, like, newHasher, signal }: FetchOptions,
): Promise<void> {
  const name = globalFileName(version);
  if (!(await isWhole(room, name, version.modelSha256, newHasher))) {
    await download(transport, version, { room, like, signal }, name);
  }
  try {
    const reader = await openRoomFile(room, name);
    try {
      await verifyState(reader, like, `version ${version.outerStep}`);
    } finally {
      await reader.close();
    }
  } catch (error) {
    await room.remove(name);
    throw error;
  }
  // The one before may be about to be installed.
  const others = (await room.list()).filter((other) => other !== name);
  for (const other of others.slice(0, -1)) await room.remove(other);
}

async function isWhole(room: FileRoom, name: string, sha256: string | undefined, newHasher: NewHasher) {
  if (sha256 === undefined || !(await room.list()).includes(name)) return false;
  const hasher = newHasher();
  const content = await room.content(name);
  for await (const chunk of content.chunks()) hasher.update(chunk);
  return hasher.digest() === sha256;
}

async function download(
  transport: Transport,
  { outerStep, revision, modelFile, modelSha256 }: SeenVersion,
  { room, like, signal }: Pick<FetchOptions, "room" | "like" | "signal">,
  name: string,
): Promise<void> {
  const source = await transport.open(revision, modelFile, { signal });
  try {
    const { sizeBytes } = source;
    const mostBytes = maxFileBytes(like);
    if (sizeBytes > mostBytes) {
      throw new NodeError(
        "refused_version",
        `version ${outerStep}: ${modelFile} has ${sizeBytes} bytes, weights of this model have at most ${mostBytes}; nothing of it was fetched`,
        { details: { path: modelFile, sizeBytes, mostBytes } },
      );
    }
    const { sha256 } = await room.write(name, async (sink) => {
      await sink.reserve?.(sizeBytes);
      for (let offset = 0; offset < sizeBytes; offset += PIECE_BYTES) {
        signal.throwIfAborted();
        const length = Math.min(PIECE_BYTES, sizeBytes - offset);
        const bytes = await source.read(offset, length);
        if (bytes.byteLength !== length) {
          const message = `${modelFile}: ${bytes.byteLength} bytes at ${offset} arrived, ${length} were asked for`;
          throw new TransportError("corrupt", message, { path: modelFile });
        }
        await sink.write(bytes);
      }
    });
    if (modelSha256 === undefined || sha256 === modelSha256) return;
  } finally {
    await source.close?.();
  }
  await room.remove(name);
  throw new TransportError("corrupt", `${modelFile}: its SHA-256 is not the one in the version record`, {
    path: modelFile,
  });
}
