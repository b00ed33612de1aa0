// What a run's metrics should say of where they come from: its configuration, what it runs on, and the state of the
// sources in the working directory. Reads only; without git, or outside a repository, there is no state.

import { execFile } from "node:child_process";
import { promisify } from "node:util";
import type { Environment } from "../checkpoint/content.js";
import type { SpeedtronicConfig } from "../config/schema.js";
import { toPlainConfig } from "../config/serialize.js";
import type { EventMap } from "../observe/events/catalogue.js";

type RunInfo = EventMap["run_info"];

/** Longest wait for git; a repository on a slow disk must not hold up the run. */
const gitTimeoutMs = 1500;

export async function describeRun(config: SpeedtronicConfig, environment: Environment): Promise<RunInfo> {
  return {
    name: config.run.name,
    config: toPlainConfig(config),
    environment: { ...environment },
    git: await gitState(process.cwd()),
  };
}

/** Null when it is not known. */
async function gitState(folder: string): Promise<RunInfo["git"]> {
  try {
    const arguments_ = ["--no-optional-locks", "-C", folder, "status", "--porcelain=v2", "--branch"];
    const { stdout } = await promisify(execFile)("git", [...arguments_, "--untracked-files=no"], {
      timeout: gitTimeoutMs,
      maxBuffer: 2 ** 24,
    });
    return parseGitStatus(stdout);
  } catch {
    return null;
  }
}

/** Reads `git status --porcelain=v2 --branch`. */
export function parseGitStatus(text: string): RunInfo["git"] {
  const lines = text.split("\n").filter((line) => line !== "");
  const header = (name: string): string | undefined =>
    lines.find((line) => line.startsWith(`# branch.${name} `))?.slice(`# branch.${name} `.length);
  const commit = header("oid");
  if (commit === undefined || commit === "(initial)") return null;
  const branch = header("head");
  return {
    commit,
    branch: branch === undefined || branch === "(detached)" ? null : branch,
    changed_files: lines.filter((line) => !line.startsWith("#")).length,
  };
}
