// Which process wrote a lock or a temporary folder, and whether it still runs. A process id alone is not enough:
// ids are reused after an end or a reboot, so the kernel's start time and boot id go with it (Linux; elsewhere null).

import { createHash } from "node:crypto";
import { readFileSync, readlinkSync } from "node:fs";
import { hostname } from "node:os";

import { isProcessAlive } from "./platform.node.js";

export interface ProcessIdentity {
  readonly host: string;
  readonly bootId: string | null;
  /** Containers number their processes apart: an id means something in its own namespace only. */
  readonly pidNamespace: string | null;
  readonly pid: number;
  /** Clock ticks from boot to the start of the process. */
  readonly startTicks: string | null;
}

/** `unknown`: the process belongs to another machine or container, where this one cannot look. */
export type Liveness = "alive" | "dead" | "unknown";

let own: ProcessIdentity | undefined;

export function currentProcess(): ProcessIdentity {
  own ??= {
    host: hostname(),
    bootId: attempt(() => readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim()),
    pidNamespace: attempt(() => readlinkSync("/proc/self/ns/pid")),
    pid: process.pid,
    startTicks: procStat(process.pid)?.startTicks ?? null,
  };
  return own;
}

export function livenessOf(other: ProcessIdentity): Liveness {
  const here = currentProcess();
  if (other.host !== here.host) return "unknown";
  // Nothing survives a reboot.
  if (other.bootId !== here.bootId) return "dead";
  if (other.pidNamespace !== here.pidNamespace) return "unknown";
  return pidLiveness(other.pid, other.startTicks);
}

/** A short tag for file names: the place where process ids are comparable, the id and its start. */
export function processTag(): string {
  const { pid, startTicks } = currentProcess();
  return `${placeHash()}-${pid}-${startTicks ?? "0"}`;
}

/** {@link livenessOf} for the process that made a {@link processTag}; `own` is this very process. */
export function livenessOfTag(tag: string): Liveness | "own" {
  const match = /^([0-9a-f]{8})-([0-9]+)-([0-9]+)/.exec(tag);
  if (match === null || match[1] !== placeHash()) return "unknown";
  const startTicks = match[3] === "0" ? null : (match[3] ?? null);
  const { pid, startTicks: ownStart } = currentProcess();
  if (Number(match[2]) === pid && startTicks === ownStart) return "own";
  return pidLiveness(Number(match[2]), startTicks);
}

function placeHash(): string {
  const { host, bootId, pidNamespace } = currentProcess();
  return createHash("sha256")
    .update(JSON.stringify([host, bootId, pidNamespace]))
    .digest("hex")
    .slice(0, 8);
}

function pidLiveness(pid: number, startTicks: string | null): Liveness {
  if (!isProcessAlive(pid)) return "dead";
  const found = procStat(pid);
  if (found === undefined) return "alive";
  // A zombie has ended; it only waits for its parent to read the exit status.
  if (found.state === "Z" || found.state === "X") return "dead";
  return startTicks === null || startTicks === found.startTicks ? "alive" : "dead";
}

/** Fields 3 and 22 of /proc/PID/stat (proc(5)); the command in field 2 may hold blanks and brackets. */
function procStat(pid: number): { state: string; startTicks: string } | undefined {
  const text = attempt(() => readFileSync(`/proc/${pid}/stat`, "utf8"));
  const fields = text?.slice(text.lastIndexOf(")") + 2).split(" ");
  const [state, startTicks] = [fields?.[0], fields?.[19]];
  return state === undefined || startTicks === undefined ? undefined : { state, startTicks };
}

function attempt<T>(read: () => T): T | null {
  try {
    return read();
  } catch {
    return null;
  }
}
