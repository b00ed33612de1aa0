// How each engine of the step benchmark is started: a command, its environment, and what is needed for it.

import { execFileSync } from "node:child_process";
import { existsSync, mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { BenchSize } from "./sizes.js";

export interface Peer {
  readonly name: string;
  readonly command: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly cwd?: string;
}

const here = (path: string) => fileURLToPath(new URL(path, import.meta.url));
const tcmallocPaths = [
  "/usr/lib/x86_64-linux-gnu/libtcmalloc_minimal.so.4",
  "/usr/lib/x86_64-linux-gnu/libtcmalloc.so.4",
];

const tcmalloc = tcmallocPaths.find(existsSync);

export function speedtronicPeer(size: BenchSize, threads: number, steps: number): Peer {
  const script = here("step-speedtronic.mjs");
  return {
    name: "speedtronic",
    command: [process.execPath, script, JSON.stringify(size), `${threads}`, `${steps}`],
    env: {},
  };
}

/** The hand-built graph in `folder`; `data` holds its weights and tokens. */
export function probePeer(folder: string, data: string, threads: number, steps: number): Peer {
  const args = ["adam=wasm", "chunks=8", "blocks=2", "mempat=0", `nt=${threads}`, `steps=${steps + 3}`];
  return { name: "probe", command: [process.execPath, "run.js", ...args], env: { DDIR: data }, cwd: folder };
}

/** Writes the probe's weights and tokens for `size` with the probe's own script. */
export function makeProbeData(python: string, folder: string, size: BenchSize): string {
  const data = mkdtempSync(join(tmpdir(), "speedtronic-probe-"));
  execFileSync(python, ["torch_step.py", "2", "1", "dump"], {
    cwd: folder,
    env: { ...plainEnv(), DDIR: data, CFG: probeConfig(size) },
    stdio: ["ignore", "ignore", "inherit"],
  });
  return data;
}

/** The variants of PyTorch, with tcmalloc where the machine has it. */
export function torchPeers(python: string, sizeName: string, threads: number, steps: number): Peer[] {
  const script = here("../interop/bench/torch_step.py");
  const counts = ["--threads", `${threads}`, "--steps", `${steps}`];
  return ["eager", "sdpa", "compile"].map((variant) => ({
    name: `torch ${variant}${tcmalloc ? " + tcmalloc" : ""}`,
    command: [python, script, "--variant", variant, "--size", sizeName, ...counts],
    env: { OMP_NUM_THREADS: String(threads), ...(tcmalloc ? { LD_PRELOAD: tcmalloc } : {}) },
  }));
}

/** The environment without settings that slow a current BLAS down. */
export function plainEnv(): Record<string, string> {
  const env: Record<string, string> = {};
  for (const [name, value] of Object.entries(process.env))
    if (value !== undefined && !["OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE", "LD_PRELOAD"].includes(name))
      env[name] = value;
  return env;
}

function probeConfig({ vocab, width, layers, heads, context, batch, inner }: BenchSize): string {
  return [vocab, width, layers, heads, context, batch, inner].join(",");
}
