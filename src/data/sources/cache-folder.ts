// Node only. Where downloads and tokenised texts are kept between runs.

import { homedir } from "node:os";
import { join } from "node:path";

/** `configured`, else SPEEDTRONIC_CACHE, else `speedtronic` in the user's folder for caches. */
export function cacheFolder(
  configured: string | null | undefined,
  env: Readonly<Record<string, string | undefined>>,
): string {
  const named = configured || env.SPEEDTRONIC_CACHE;
  return named || join(env.XDG_CACHE_HOME || join(homedir(), ".cache"), "speedtronic");
}
