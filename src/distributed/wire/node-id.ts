// Names of nodes. Strict for our own, since a node id becomes a folder on many machines and a part of a path in the
// repository; wider for those of peers, which follow the Python system's rules (or none).

import { nodeIdProblem } from "../../util/node-id.js";
import { quote, WireError } from "./errors.js";

export { nodeIdProblem };

/** @throws WireError `wire.invalid_node_id` unless {@link nodeIdProblem} has nothing to say. */
export function checkNodeId(nodeId: string): string {
  const problem = nodeIdProblem(nodeId);
  if (problem === undefined) return nodeId;
  throw new WireError("invalid_node_id", `node id ${quote(nodeId)} ${problem}; choose another one`);
}

/**
 * Why a node id found in the repository cannot be worked with; undefined when it can. Python nodes use any text
 * without a slash, so that blanks and other scripts are fine. Not safe as a folder name: hash or escape it.
 */
export function peerNodeIdProblem(nodeId: string): string | undefined {
  if (nodeId === "") return "is empty";
  if (nodeId === "." || nodeId === "..") return `is ${quote(nodeId)}, which names a folder and no node`;
  if (/[/\\]/.test(nodeId)) return "has a slash or backslash";
  // With the "u" flag a surrogate pair is one character, so that only halves match.
  if (/[\p{Cc}\p{Surrogate}]/u.test(nodeId)) return "has a control character or half a surrogate pair";
  if (new TextEncoder().encode(nodeId).byteLength > 255) return "is longer than 255 bytes";
  return undefined;
}
