// Names of revisions: which strings may name a branch, and what a client's string means.

import { badRequest } from "../errors.js";

export const DEFAULT_BRANCH = "main";

export type Revision =
  | { readonly kind: "branch"; readonly name: string }
  | { readonly kind: "commit"; readonly id: string };

export function parseRevision(text: string): Revision {
  if (/^[0-9a-f]{40}$/.test(text)) return { kind: "commit", id: text };
  if (text === "HEAD") return { kind: "branch", name: DEFAULT_BRANCH };
  return { kind: "branch", name: text.replace(/^refs\/heads\//, "") };
}

/** Whether a branch may have this name. Names that mean something else as a revision are not allowed. */
export function isBranchName(name: string): boolean {
  return (
    /^[A-Za-z0-9][A-Za-z0-9._/-]{0,99}$/.test(name) &&
    !/\.\.|\/\/|\/$|\.$|\.lock$|\/\./.test(name) &&
    !/^[0-9a-f]{5,40}$/i.test(name) &&
    !/^(?:refs\/|HEAD$)/.test(name)
  );
}

export function checkBranchName(name: string): string {
  if (isBranchName(name)) return name;
  throw badRequest(
    `${JSON.stringify(name.slice(0, 120))} is not a branch name: up to 100 letters, digits, '.', '_', '-' and '/', ` +
      "not HEAD, not refs/…, not hexadecimal like a commit",
  );
}
