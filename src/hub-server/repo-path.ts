// Which paths a file in a repository may have. The store never uses them as paths on its own disk; whoever
// downloads a repository does, so nothing that could leave a folder or confuse a tool is let in.

import { badRequest } from "./errors.js";

const MAX_PATH_BYTES = 1024;
const MAX_SEGMENT_BYTES = 255;

/** Returns `path` unchanged or throws HubError 400 that says what is wrong with it. */
export function checkRepoPath(path: unknown): string {
  if (typeof path !== "string") throw badRequest("a path is missing or not a string");
  const fault = findFault(path);
  if (fault !== undefined) throw badRequest(`the path ${JSON.stringify(path.slice(0, 200))} ${fault}`);
  return path;
}

/** A folder as `deletedFolder` and listings name it: a path, with or without a slash at its end. */
export function checkFolderPath(path: unknown): string {
  return checkRepoPath(typeof path === "string" && path.endsWith("/") ? path.slice(0, -1) : path);
}

function findFault(path: string): string | undefined {
  if (path === "") return "is empty";
  if (Buffer.byteLength(path) > MAX_PATH_BYTES) return `is longer than ${MAX_PATH_BYTES} bytes`;
  if (path.startsWith("/") || /^[A-Za-z]:/.test(path)) return "is absolute";
  if (path.includes("\\")) return "holds a backslash";
  if (/\p{Cc}/u.test(path)) return "holds a control character";
  if (/[\p{Zl}\p{Zp}\u202a-\u202e\u2066-\u2069]/u.test(path))
    return "holds a character that reorders or breaks lines";
  // A lone surrogate has no UTF-8 form.
  if (/\p{Cs}/u.test(path)) return "is not valid Unicode";
  for (const segment of path.split("/")) {
    if (segment === "") return "has an empty part";
    if (segment === "." || segment === "..") return `has the part '${segment}'`;
    if (/^\.git[. ]*$/i.test(segment)) return "lies in a .git folder";
    if (Buffer.byteLength(segment) > MAX_SEGMENT_BYTES)
      return `has a part longer than ${MAX_SEGMENT_BYTES} bytes`;
  }
  return undefined;
}
