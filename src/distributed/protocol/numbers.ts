// Numbers in the paths of our deltas: they grow over the whole life of a node, and no other node has them. A Python
// master keys its cache by the file's name alone, so that equal names of two nodes would corrupt its mean.

import { ProtocolError } from "./errors.js";

const HASH_BITS = 30;
/** Numbers from here on are ordered within a life; Python's are below and start again with every run. */
export const ORDERED_FROM = 2 ** HASH_BITS;
/** No run has more versions: one a second for thirty years. Who took a larger number would never see a newer one. */
export const MAX_OUTER_STEP = 1_000_000_000;

/**
 * The number of a node's `sequence`-th delta: sequence x 2^30 + a hash of `nodeSalt` of 30 bits. `nodeSalt` tells
 * lives apart: node id, and something random that is kept with the node's state.
 * @throws ProtocolError `protocol.numbers_exhausted` unless the sequence is an integer from 1 to 2^23 - 1.
 */
export function pathNumber(sequence: number, nodeSalt: string): number {
  const value = sequence * ORDERED_FROM + hash30(nodeSalt);
  if (Number.isSafeInteger(sequence) && sequence >= 1 && Number.isSafeInteger(value)) return value;
  const last = Math.floor(Number.MAX_SAFE_INTEGER / ORDERED_FROM);
  const message = `delta ${sequence} of a node has no number: they go from 1 to ${last}; start with another node id`;
  throw new ProtocolError("numbers_exhausted", message);
}

/** Names the life of a node that a number belongs to; undefined where numbers are not ordered. */
export function lifeOf(nodeId: string, number: number): string | undefined {
  return number < ORDERED_FROM ? undefined : `${nodeId}/${number % ORDERED_FROM}`;
}

/** FNV-1a over UTF-16 units, then mixed so that the bits that are cut off count as well. */
export function hash30(text: string): number {
  let hash = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) {
    const unit = text.charCodeAt(i);
    hash = Math.imul(hash ^ (unit & 0xff), 0x01000193);
    hash = Math.imul(hash ^ (unit >>> 8), 0x01000193);
  }
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return ((hash ^ (hash >>> 16)) >>> 0) % ORDERED_FROM;
}
