// Whether another process sends deltas under this node's name: the same id on two machines, or a copied state folder.
// Both would be given the same data and count as one node. Deltas of one process share their life (protocol/numbers.ts),
// and commits stand in one line, so that each of the two sees which of them came first. The later one stops sending.

import { lifeOf } from "../protocol/numbers.js";
import { parseDeltaPath } from "../wire/delta-path.js";
import { NodeError } from "./errors.js";

export type TwinSeen =
  /** Nobody else. */
  | undefined
  /** Another process began to send after this one did. */
  | { readonly path: string };

export class TwinWatch {
  readonly nodeId: string;
  /** Lives of others that this node found when it sent for the first time, and may be long over. */
  #elders: ReadonlySet<string | undefined> = new Set();
  #known: ReadonlySet<string> | undefined;
  #hasSent = false;

  constructor(nodeId: string) {
    this.nodeId = nodeId;
  }

  /** The folder to list. */
  get prefix(): string {
    return `nodes/${this.nodeId}/`;
  }

  /**
   * Looks at the paths below {@link prefix} on which a commit of `own` will be based.
   * @throws NodeError `node.duplicate_id` if this node is the later one.
   */
  look(paths: readonly string[], own: string): TwinSeen {
    const ownLife = lifeAt(own);
    const foreign = paths.filter((path) => ![undefined, ownLife].includes(lifeAt(path)));
    const before = this.#known;
    this.#known = new Set(foreign);
    if (!this.#hasSent || before === undefined) {
      this.#elders = new Set(foreign.map(lifeAt));
      return undefined;
    }
    const fresh = foreign.filter((path) => !before.has(path));
    const elder = fresh.find((path) => this.#elders.has(lifeAt(path)));
    if (elder !== undefined) throw duplicateId(this.nodeId, elder);
    return fresh[0] === undefined ? undefined : { path: fresh[0] };
  }

  /** The commit after the last look was made. */
  sent(): void {
    this.#hasSent = true;
  }
}

/** A file lies where this node's next delta belongs: somebody has a copy of its state folder. */
export function duplicateId(nodeId: string, path: string): NodeError {
  return new NodeError(
    "duplicate_id",
    `another process is node "${nodeId}" as well, and was so before this one: it sent ${path}. This one sends nothing while ` +
      "the other does, and keeps what it learned; stop one of the two, or give this one another distributed.node_id (and a state folder of its own, if it is a copy)",
    { details: { nodeId, path } },
  );
}

/** Undefined for what is no delta. Python's, whose numbers are not ordered, count as one life. */
function lifeAt(path: string): string | undefined {
  const parsed = parseDeltaPath(path);
  return parsed.kind === "delta" ? (lifeOf(parsed.nodeId, parsed.localStep) ?? "unordered") : undefined;
}
