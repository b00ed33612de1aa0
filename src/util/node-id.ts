// The one rule for the names of our nodes, wherever they come from: a node id becomes a folder on many machines and a part
// of a path in the repository.

const MAX_LENGTH = 64;
const STRICT = /^[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9_-])?$/;
/** Device names of Windows, which no folder there can have, with or without an extension. */
const RESERVED = /^(?:con|prn|aux|nul|com[0-9]|lpt[0-9])(?:\.|$)/i;

/** Why `nodeId` cannot be the id of one of our nodes; undefined when it can. One rule for every source of ids. */
export function nodeIdProblem(nodeId: string): string | undefined {
  if (nodeId === "") return "is empty";
  if (nodeId.length > MAX_LENGTH) return `has ${nodeId.length} characters, at most ${MAX_LENGTH} are allowed`;
  if (!STRICT.test(nodeId)) {
    return 'must consist of letters, digits, ".", "_" and "-", begin with a letter or digit and not end with "."';
  }
  if (RESERVED.test(nodeId)) return "is a device name on Windows, where no folder can have it";
  return undefined;
}
