// `hf://datasets/org/name[@revision][/path or pattern]`, and which files of a repository it means.

import { formatOfName } from "../../data/sources/file-documents.js";
import { patternToRegExp } from "../../data/sources/glob.js";
import { repoNameProblem } from "../../distributed/transports/hub-names.js";
import { DataError } from "../../util/errors.js";

export interface DatasetAddress {
  readonly repo: string;
  /** A branch, a tag or a commit. */
  readonly revision: string;
  /** Undefined: the data files of the training split. */
  readonly path: string | undefined;
}

/** Throws DataError for what is no such address. */
export function parseDatasetAddress(address: string): DatasetAddress {
  const [, organization = "", name = "", revision = "main", path] =
    /^hf:\/\/datasets\/([^/@]+)\/([^/@]+)(?:@([^/]+))?(?:\/(.*))?$/.exec(address) ?? [];
  const repo = `${organization}/${name}`;
  const problem =
    organization === ""
      ? "it must be hf://datasets/org/name, with @revision and /path or /pattern after that if wanted"
      : repoNameProblem(repo);
  if (problem !== undefined)
    throw new DataError(`"${address}" is no dataset of a hub: ${problem}.`, {
      code: "data.bad_address",
      details: { address },
    });
  // As in refs%2Fconvert%2Fparquet.
  const branch = /%(?![0-9a-f]{2})/i.test(revision) ? revision : decodeURIComponent(revision);
  return { repo, revision: branch, path: path === "" ? undefined : path };
}

/** Files that a path or pattern names; a folder stands for all that is below it. */
export function filesAtPath<F extends { readonly path: string }>(files: readonly F[], path: string): F[] {
  const folder = path.replace(/\/+$/, "");
  const exact = files.filter((file) => file.path === folder);
  if (exact.length > 0) return exact;
  const below = files.filter((file) => file.path.startsWith(`${folder}/`) && isData(file.path));
  if (below.length > 0) return below;
  const pattern = patternToRegExp(path);
  return files.filter((file) => pattern.test(file.path));
}

const trainSplit = /(?:^|[-_./])train(?:ing)?(?=[-_./0-9]|$)/i;
const otherSplit = /(?:^|[-_./])(?:test(?:ing)?|valid(?:ation)?|val|dev|eval(?:uation)?)(?=[-_./0-9]|$)/i;

/**
 * The data that a dataset is trained on: files whose names say so, or else all that are not of another split. Of one
 * format: Parquet before JSON Lines before text, since repositories often hold the same data twice.
 */
export function trainingFiles<F extends { readonly path: string }>(files: readonly F[]): F[] {
  const data = files.filter(({ path }) => isData(path));
  const train = data.filter(({ path }) => trainSplit.test(path));
  const chosen = train.length > 0 ? train : data.filter(({ path }) => !otherSplit.test(path));
  for (const format of ["parquet", "jsonl", "text"]) {
    const found = chosen.filter(({ path }) => formatOfName(path) === format);
    if (found.length > 0) return found;
  }
  return [];
}

function isData(path: string): boolean {
  return /\.(?:parquet|jsonl|ndjson|txt|text)(?:\.gz|\.zst)?$/i.test(path) && !/(?:^|\/)\./.test(path);
}
