// Datasets of a hub as source files: `hf://datasets/org/name`. A branch is looked up once and read at its commit; files
// are fetched by range when they are read, and kept.

import { readFile } from "node:fs/promises";
import { join } from "node:path";
import type { RemoteFiles, SourceFile } from "../../data/sources/source-file.js";
import type { RepoFile } from "../../distributed/transports/contract.js";
import { TransportError } from "../../distributed/transports/errors.js";
import { HubTransport, type HubTransportOptions } from "../../distributed/transports/hub.js";
import { nodeHub } from "../../distributed/transports/hub-fetch.node.js";
import { writeFileAtomically } from "../../util/atomic-file.node.js";
import { DataError } from "../../util/errors.js";
import { openCached } from "./cached-file.node.js";
import { type DatasetAddress, filesAtPath, parseDatasetAddress, trainingFiles } from "./dataset-address.js";

export interface HubDatasetsOptions
  extends Pick<HubTransportOptions, "endpoint" | "token" | "fetch" | "retry" | "stallMs"> {
  /** Why a token that is set is not sent. */
  readonly withheld?: string | undefined;
  /** What is fetched is kept below it. */
  readonly directory: string;
  readonly pieceBytes?: number | undefined;
}

export function isHubAddress(address: string): boolean {
  return address.startsWith("hf://");
}

const commitId = /^[0-9a-f]{40}$/;

export class HubDatasets implements RemoteFiles {
  readonly #options: HubDatasetsOptions;

  constructor(options: HubDatasetsOptions) {
    this.#options = options;
  }

  handles(address: string): boolean {
    return isHubAddress(address);
  }

  async list(address: string): Promise<readonly SourceFile[]> {
    const { directory, pieceBytes, withheld, ...connection } = this.#options;
    const { repo, revision, path } = parseDatasetAddress(address);
    const place = { repo, revision, withheld };
    const transport = new HubTransport({
      ...nodeHub,
      ...connection,
      repo,
      type: "dataset",
      branch: revision,
    });
    const folder = join(directory, transport.key);
    const { commit, files } = await explained(place, () => listed(transport, place, folder));
    const chosen = path === undefined ? trainingFiles(files) : filesAtPath(files, path);
    if (chosen.length === 0) throw nothingFound(address, files, path);
    return chosen.map((file): SourceFile => {
      const name = `hf://datasets/${repo}/${file.path}`;
      return {
        name,
        sizeBytes: file.sizeBytes,
        contentHash: async () => file.contentId,
        open: async () =>
          openCached({
            name,
            sizeBytes: file.sizeBytes,
            contentId: file.contentId,
            directory: join(folder, "files", file.contentId),
            pieceBytes,
            fetcher: async () => {
              const source = await explained(place, () => transport.open(commit, file.path));
              return { read: (offset, length) => explained(place, () => source.read(offset, length)) };
            },
          }),
      };
    });
  }
}

interface Place extends Pick<DatasetAddress, "repo" | "revision"> {
  readonly withheld: string | undefined;
}

interface Listing {
  readonly commit: string;
  readonly files: readonly RepoFile[];
}

/** What a commit holds never changes: a listing that was made once is good without the hub. */
async function listed(transport: HubTransport, { revision }: Place, folder: string): Promise<Listing> {
  const commit = commitId.test(revision) ? revision : await transport.head();
  const path = join(folder, "commits", `${commit}.json`);
  const kept = await readFile(path, "utf8")
    .then((text) => JSON.parse(text) as readonly RepoFile[])
    .catch(() => undefined);
  if (kept !== undefined) return { commit, files: kept };
  const files = await transport.list(commit, "");
  await writeFileAtomically(path, `${JSON.stringify(files)}\n`, { durable: false, createFolders: true });
  return { commit, files };
}

/** What a hub refuses is an error of the data that the user named. */
async function explained<T>({ repo, revision, withheld }: Place, ask: () => Promise<T>): Promise<T> {
  try {
    return await ask();
  } catch (cause) {
    if (!(cause instanceof TransportError)) throw cause;
    const advice =
      cause.problem === "denied" || cause.problem === "not_found"
        ? "Check the name and the revision. A private or gated dataset needs HF_TOKEN, and its terms accepted on its page." +
          (withheld === undefined ? "" : ` ${withheld}.`)
        : cause.isTransient
          ? "What arrived is kept; run again to go on from there."
          : "";
    throw new DataError(
      `The dataset ${repo} (revision ${revision}) cannot be read: ${cause.message}. ${advice}`.trimEnd(),
      { code: "data.hub", details: { repo, revision, problem: cause.problem }, cause },
    );
  }
}

function nothingFound(address: string, files: readonly RepoFile[], path: string | undefined): DataError {
  const names = files.slice(0, 8).map((file) => file.path);
  const there =
    files.length > names.length
      ? `${names.join(", ")} and ${files.length - names.length} more`
      : names.join(", ");
  const what =
    path === undefined ? "no Parquet, JSON Lines or text file to train on" : `nothing at "${path}"`;
  return new DataError(
    `${address} has ${what}; there are ${there || "no files at all"}. Name files as in hf://datasets/org/name/data/*.parquet.`,
    { code: "data.not_found", details: { address } },
  );
}
