// Names of repositories and files in addresses and on this machine, hashes of small files, and waiting.

import { TransportError } from "./errors.js";
import { checkPath } from "./paths.js";

/** For an address: each segment escaped. Throws TransportError `invalid` for what is not a plain relative path. */
export function hubPath(path: string): string {
  checkPath(path);
  return path.split("/").map(encodeURIComponent).join("/");
}

/** What is wrong with `org/name`, or undefined. */
export function repoNameProblem(repo: string): string | undefined {
  const parts = repo.split("/");
  if (parts.length !== 2) return "it must be org/name, with one slash";
  if (repo.length > 96) return "it has more than 96 characters";
  if (!parts.every((part) => /^[A-Za-z0-9_](?:[A-Za-z0-9._-]*[A-Za-z0-9_])?$/.test(part)))
    return 'only letters, digits, "_", "." and "-" may be in it, the last two not at an end';
  if (/--|\.\./.test(repo)) return 'it must not hold "--" or ".."';
  return repo.endsWith(".git") ? 'it must not end in ".git"' : undefined;
}

/** Safe as a folder name; names that differ only in what is replaced or in case differ in the hash. */
export function repositoryKey(endpoint: string, repo: string): string {
  const text = `${new URL(endpoint).host}-${repo.replace("/", "--")}`;
  let hash = 0x811c9dc5;
  for (const byte of new TextEncoder().encode(`${endpoint}/${repo}`)) {
    hash = Math.imul(hash ^ byte, 0x01000193) >>> 0;
  }
  const readable = text.replaceAll(/[^A-Za-z0-9._-]/g, "_").slice(0, 150);
  return `hub-${readable}-${hash.toString(16).padStart(8, "0")}`;
}

/** Compares with what the hub keeps: SHA-256, or git's SHA-1 of a blob. Throws TransportError `corrupt`. */
export async function checkContent(
  bytes: Uint8Array,
  contentId: string | undefined,
  path: string,
): Promise<void> {
  if (contentId === undefined) return;
  const isSha256 = contentId.length === 64;
  const header = isSha256 ? "" : `blob ${bytes.byteLength}\0`;
  const data = new Uint8Array(header.length + bytes.byteLength);
  data.set(new TextEncoder().encode(header));
  data.set(bytes, header.length);
  const digest = new Uint8Array(await crypto.subtle.digest(isSha256 ? "SHA-256" : "SHA-1", data));
  const found = Array.from(digest, (byte) => byte.toString(16).padStart(2, "0")).join("");
  if (found === contentId) return;
  throw new TransportError(
    "corrupt",
    `${path}: the bytes have the hash ${found}, the hub says ${contentId}`,
    {
      path,
    },
  );
}

/** Rejects with the signal's reason when it is aborted. */
export function pause(ms: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted === true) return reject(signal.reason);
    const leave = () => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", leave);
      resolve();
    }, ms);
    signal?.addEventListener("abort", leave, { once: true });
  });
}
