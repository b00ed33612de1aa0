// The doctor's look at memory and disk: is there room for what the plan says, and may this user write there? Writes
// nothing itself.

import { constants } from "node:fs";
import { access, readdir, stat } from "node:fs/promises";
import { freemem, totalmem } from "node:os";
import { dirname, isAbsolute, join, resolve } from "node:path";
import { freeBytes } from "../../checkpoint/disk.js";
import type { SpeedtronicConfig } from "../../config/schema.js";
import type { DiskPlan, MemoryPlan } from "../plan/memory.js";
import type { Findings } from "./finding.js";

/** What this machine has. Tests give their own. */
export interface Machine {
  readonly memoryBytes: number;
  readonly freeMemoryBytes: number;
  /** Where `folder` lies; undefined where the system does not say. */
  freeDiskBytes(folder: string): Promise<number | undefined>;
}

export function thisMachine(): Machine {
  const total = totalmem();
  // 0, or larger than the machine, where no limit is set.
  const limit = process.constrainedMemory?.() ?? 0;
  return {
    memoryBytes: limit > 0 && limit < total ? limit : total,
    freeMemoryBytes: freemem(),
    freeDiskBytes: freeBytes,
  };
}

export function checkMemory(plan: MemoryPlan, machine: Machine, findings: Findings): string {
  const needed = megabytes(plan.total);
  const detail = `about ${needed} needed, ${megabytes(machine.memoryBytes)} there, ${megabytes(machine.freeMemoryBytes)} free now`;
  const action = "lower data.micro_batch_size, data.block_size or the model's sizes";
  if (plan.total > machine.memoryBytes)
    findings.problem(
      "memory",
      `about ${needed} are needed, but there are ${megabytes(machine.memoryBytes)}`,
      action,
    );
  else if (plan.total > machine.freeMemoryBytes)
    findings.note(
      "memory",
      `about ${needed} are needed, and ${megabytes(machine.freeMemoryBytes)} are free now`,
      `end other programs, or ${action}`,
    );
  return detail;
}

export async function checkPlaces(
  config: SpeedtronicConfig,
  plan: DiskPlan | undefined,
  machine: Machine,
  findings: Findings,
): Promise<string> {
  const { run, logging, checkpoint } = config;
  await checkWritable("run.output_dir", run.output_dir, findings);
  for (const key of ["file", "json_file"] as const)
    if (logging[key] !== null)
      await checkWritable(`logging.${key}`, dirname(resolve(logging[key])), findings);
  if (!checkpoint.enabled) return "no checkpoints are written";

  const folder = isAbsolute(checkpoint.directory)
    ? checkpoint.directory
    : join(run.output_dir, checkpoint.directory);
  await checkWritable("checkpoint.directory", folder, findings);
  const earlier = (await readdir(folder).catch(() => [])).filter((name) => /^step-\d+$/.test(name)).length;
  if (earlier > 0 && !checkpoint.resume)
    findings.note(
      folder,
      `${earlier} ${earlier === 1 ? "checkpoint" : "checkpoints"} of an earlier run ${earlier === 1 ? "is" : "are"} there`,
      "go on from the newest with --resume, or choose another run.output_dir",
    );
  const free = await machine.freeDiskBytes(await existing(folder));
  if (plan === undefined) return "how large checkpoints are is not known";
  if (free !== undefined && plan.total > free)
    findings.problem(
      folder,
      `checkpoints need ${megabytes(plan.total)}, but ${megabytes(free)} are free there`,
      "lower checkpoint.keep_last, or choose another run.output_dir",
    );
  return `checkpoints need ${megabytes(plan.total)}, ${free === undefined ? "how much is free is not known" : `${megabytes(free)} free`}`;
}

/** Whether `folder` can be made and written: looks at the nearest part of its path that exists. */
async function checkWritable(where: string, folder: string, findings: Findings): Promise<void> {
  const nearest = await existing(folder);
  const info = await stat(nearest);
  if (!info.isDirectory()) {
    findings.problem(where, `${nearest} is a file, where a folder is needed`, "choose another path");
    return;
  }
  const isWritable = await access(nearest, constants.W_OK | constants.X_OK).then(
    () => true,
    () => false,
  );
  if (!isWritable)
    findings.problem(
      where,
      `${nearest} cannot be written by this user`,
      "change its rights, or choose another path",
    );
}

async function existing(path: string): Promise<string> {
  const absolute = resolve(path);
  const parent = dirname(absolute);
  const isThere = await stat(absolute).then(
    () => true,
    () => false,
  );
  return isThere || parent === absolute ? absolute : existing(parent);
}

function megabytes(bytes: number): string {
  return bytes >= 1e9 ? `${(bytes / 1e9).toFixed(1)} GB` : `${Math.max(1, Math.round(bytes / 1e6))} MB`;
}
