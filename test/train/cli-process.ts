// `speedtronic train` as a real process, watched and killed.

import { type ChildProcess, spawn } from "node:child_process";
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";

const root = join(import.meta.dirname, "../..");

export interface TrainProcess {
  readonly process: ChildProcess;
  /** Everything printed so far, both streams. */
  output(): string;
  /** Resolves once `step` updates are reported done; rejects if the process ends before. */
  reached(step: number): Promise<void>;
  /** Exit code, or the signal that killed it. */
  readonly ended: Promise<number | NodeJS.Signals>;
  /** Sends `signal` to a process that is still running; throws if it is not. */
  kill(signal: NodeJS.Signals): void;
}

/** Runs the command line from its sources. */
export function startTraining(args: readonly string[]): TrainProcess {
  const program = ["--import", "tsx", join(root, "src/cli/main.ts"), "train", ...args];
  const child = spawn(process.execPath, program, { cwd: root, stdio: ["ignore", "pipe", "pipe"] });
  let text = "";
  const listeners = new Set<() => void>();
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding("utf8").on("data", (chunk: string) => {
      text += chunk;
      for (const listener of listeners) listener();
    });
  const ended = new Promise<number | NodeJS.Signals>((resolve, reject) => {
    child.once("error", reject);
    child.once("close", (code, signal) => resolve(signal ?? code ?? -1));
  });
  return {
    process: child,
    output: () => text,
    ended,
    reached: (step) =>
      new Promise((resolve, reject) => {
        const look = () => {
          const steps = [...text.matchAll(/^step (\d+)\/\d+ /gm)].map(([, n]) => Number(n));
          if (steps.some((n) => n >= step)) {
            listeners.delete(look);
            resolve();
          }
        };
        listeners.add(look);
        void ended.then((how) => reject(new Error(`ended (${how}) before step ${step}:\n${text}`)));
        look();
      }),
    kill: (signal) => {
      if (child.exitCode !== null || child.signalCode !== null || !child.kill(signal))
        throw new Error(`the process was gone already:\n${text}`);
    },
  };
}

/** Folders of half-written checkpoints. */
export function unfinishedSaves(directory: string): string[] {
  if (!existsSync(directory)) return [];
  return readdirSync(directory).filter((name) => name.startsWith(".tmp-") && name.endsWith("-new"));
}
