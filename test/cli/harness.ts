// Runs the command line inside the test's process with the output collected, or as a real process; and a model
// small enough to be trained in the blink of an eye.

import { type ChildProcess, spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll } from "vitest";
import type { CliContext } from "../../src/cli/context.js";
import { runCli } from "../../src/cli/run.js";

export interface CliResult {
  readonly code: number;
  readonly out: string;
  readonly err: string;
}

export interface CliOptions {
  readonly env?: Readonly<Record<string, string>>;
  readonly isTerminal?: boolean;
  /** Sees every piece that goes to stdout, as it comes. */
  readonly onOut?: (text: string) => void;
}

export async function cli(args: readonly string[], options: CliOptions = {}): Promise<CliResult> {
  const output = { out: "", err: "" };
  const write = (text: string) => {
    output.out += text;
    options.onOut?.(text);
  };
  const context: CliContext = {
    out: write,
    err: (text) => {
      output.err += text;
    },
    stream: { write },
    env: options.env ?? {},
    isTerminal: options.isTerminal ?? false,
    onOutputClosed: () => {},
    onOutputFailed: () => {},
  };
  const code = await runCli(args, context);
  return { code, ...output };
}

export interface CliProcess {
  readonly child: ChildProcess;
  stdout(): string;
  stderr(): string;
  /** Resolves once stdout has `text`; rejects if the process ends without it. */
  waitFor(text: string): Promise<void>;
  /** Exit code, or the signal that killed it. */
  readonly ended: Promise<number | NodeJS.Signals>;
}

const main = fileURLToPath(new URL("../../src/cli/main.ts", import.meta.url));

export function startCli(args: readonly string[]): CliProcess {
  const child = spawn(process.execPath, ["--import", "tsx", main, ...args], {
    stdio: ["ignore", "pipe", "pipe"],
  });
  const text = { stdout: "", stderr: "" };
  for (const name of ["stdout", "stderr"] as const)
    child[name].setEncoding("utf8").on("data", (chunk: string) => {
      text[name] += chunk;
    });
  const ended = new Promise<number | NodeJS.Signals>((resolve) => {
    child.once("close", (code, signal) => resolve(signal ?? code ?? -1));
  });
  return {
    child,
    stdout: () => text.stdout,
    stderr: () => text.stderr,
    ended,
    waitFor: (wanted) =>
      new Promise((resolve, reject) => {
        const look = () => {
          if (text.stdout.includes(wanted)) resolve();
        };
        child.stdout.on("data", look);
        child.once("close", () =>
          reject(new Error(`ended without "${wanted}": ${text.stdout}${text.stderr}`)),
        );
        look();
      }),
  };
}

/** A folder of this test file that goes away with it. */
export function scratchFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "speedtronic-cli-"));
  afterAll(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** A run over `text` with a model of 24,640 parameters; `lines` are added to the file. */
export function writeTinyConfig(folder: string, text: string, lines = ""): string {
  const file = join(folder, "train.txt");
  writeFileSync(file, text);
  const path = join(folder, "tiny.yaml");
  writeFileSync(
    path,
    `run: {max_steps: 6, output_dir: ${join(folder, "run")}, threads: 1}
model: {vocab_size: 256, max_seq_len: 32, n_layer: 2, n_head: 2, d_model: 32, d_ff: 64}
data: {text_path: ${file}, micro_batch_size: 4, target_batch_size: 4}
optimizer: {lr: 3.0e-3}
scheduler: {warmup_steps: 2}
checkpoint: {every_steps: 2, keep_last: 2}
${lines}`,
  );
  return path;
}

/** The golden ratio's bytes as letters: a text that never repeats for long and needs no file. */
export const sampleText = Array.from({ length: 4000 }, (_, i) =>
  String.fromCharCode(97 + Math.floor(((i * 0.618033988749895) % 1) * 20)),
).join("");
