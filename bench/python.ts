// Where the Python peers live, if they do.

import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";

/** Path of the interpreter that interop/setup-env.sh made; undefined where it was not made. */
export function findPython(): string | undefined {
  if (process.env.SPEEDTRONIC_PYTHON) return process.env.SPEEDTRONIC_PYTHON;
  const script = fileURLToPath(new URL("../interop/setup-env.sh", import.meta.url));
  const check = spawnSync("bash", [script, "--check"], { encoding: "utf8" });
  return check.status === 0 ? check.stdout.trim().split("\n").at(-1) : undefined;
}
