// Addresses that carry their own permission: the clients send no token with the bytes of an upload. The signature
// covers method, repository, content, size and expiry, so an address is good for exactly one thing.

import { createHmac, timingSafeEqual } from "node:crypto";
import { HubError } from "../errors.js";

export interface UploadGrant {
  /** As `repoKey` writes it. */
  readonly repo: string;
  /** Distinguishes a repository from a later one of the same name. */
  readonly uid: string;
  readonly sha256: string;
  readonly sizeBytes: number;
  readonly expiresAtMs: number;
}

export function signUpload(key: Buffer, grant: UploadGrant): string {
  const query = new URLSearchParams({
    repo: grant.repo,
    size: String(grant.sizeBytes),
    exp: String(grant.expiresAtMs),
    sig: signature(key, grant),
  });
  return `/_lfs/${grant.sha256}?${query}`;
}

/** Throws HubError 403 unless `sig` is ours for exactly this grant and it is not too late. */
export function checkUpload(key: Buffer, grant: UploadGrant, sig: string, nowMs: number): void {
  const expected = Buffer.from(signature(key, grant));
  const given = Buffer.from(sig);
  if (expected.byteLength !== given.byteLength || !timingSafeEqual(expected, given)) {
    throw new HubError(403, "Forbidden", "the upload address has no valid signature; ask for a new one");
  }
  if (nowMs > grant.expiresAtMs) {
    throw new HubError(403, "Forbidden", "the upload address has expired; ask for a new one");
  }
}

function signature(key: Buffer, { repo, uid, sha256, sizeBytes, expiresAtMs }: UploadGrant): string {
  return createHmac("sha256", key)
    .update(["PUT", repo, uid, sha256, sizeBytes, expiresAtMs].join("\n"))
    .digest("base64url");
}
