// Peak of the memory that this process had in RAM, in units of 10^6 bytes.

import { readFileSync } from "node:fs";

/** The kernel's own figure where there is one (Linux), else that of getrusage. */
export function peakMemoryMb() {
  try {
    const kilobytes = /^VmHWM:\s+([0-9]+) kB$/m.exec(readFileSync("/proc/self/status", "utf8"))?.[1];
    if (kilobytes !== undefined) return (Number(kilobytes) * 1024) / 1e6;
  } catch {
    // Another system.
  }
  return (process.resourceUsage().maxRSS * 1024) / 1e6;
}
