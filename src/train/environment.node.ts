// What this process runs on, as far as it can change the bits of a result. Names no host, user or path.

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { availableParallelism, cpus } from "node:os";
import type { Environment } from "../checkpoint/content.js";

/** Instruction sets that make matrix kernels choose another order of additions. */
const relevantFeatures =
  /^(?:sse4_2|avx|avx2|fma|f16c|avx512[a-z0-9_]*|avx_vnni|amx_[a-z0-9]+|asimd[a-z]*|sve2?)$/;

export function packageVersion(): string {
  return (createRequire(import.meta.url)("../../package.json") as { version: string }).version;
}

/** Threads that the engine uses when the configuration names no number. */
export function defaultThreads(): number {
  return availableParallelism();
}

export function currentEnvironment(threads: number, onnxruntime: string | undefined): Environment {
  const features = cpuFeatures();
  return {
    threads,
    cpu: cpus()[0]?.model.trim() || process.arch,
    ...(features === undefined ? {} : { cpuFeatures: features }),
    node: process.versions.node,
    library: `speedtronic ${packageVersion()}`,
    platform: `${process.platform}-${process.arch}`,
    ...(onnxruntime === undefined ? {} : { onnxruntime }),
  };
}

/** Known on Linux only; elsewhere the CPU's model stands for it. */
function cpuFeatures(): string | undefined {
  if (process.platform !== "linux") return undefined;
  try {
    const line = /^(?:flags|Features)\s*:\s*(.+)$/m.exec(readFileSync("/proc/cpuinfo", "utf8"))?.[1];
    return line
      ?.split(/\s+/)
      .filter((name) => relevantFeatures.test(name))
      .sort()
      .join(" ");
  } catch {
    return undefined;
  }
}
