// A command of the built command line as a process that is killed and started again with the same arguments, and that
// says when it printed a line. Also builds that command line.

import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { appendFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const project = fileURLToPath(new URL("../..", import.meta.url));
const TAIL_LINES = 12;

/** Compiles the sources into `folder` and returns the program to run: training needs compiled files. */
export function buildCli(folder: string): string {
  const compiler = join(project, "node_modules/typescript/bin/tsc");
  const output = join(folder, "dist");
  execFileSync(process.execPath, [compiler, "-p", join(project, "tsconfig.build.json"), "--outDir", output]);
  // What the compiled files look for beside them and above.
  writeFileSync(join(folder, "package.json"), JSON.stringify({ type: "module", version: "0.0.0" }));
  for (const name of ["node_modules", "wasm"]) symlinkSync(join(project, name), join(folder, name));
  return join(output, "cli/main.js");
}

export interface KillableOptions {
  readonly name: string;
  readonly program: string;
  readonly args: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  /** Gets everything that it prints, over all its lives. */
  readonly logFile: string;
}

export type Ending = NodeJS.Signals | number;

export class Killable {
  readonly name: string;
  readonly #options: KillableOptions;
  readonly #watchers = new Set<(line: string) => void>();
  readonly #tail: string[] = [];
  #child: ChildProcess | undefined;
  #ended: Promise<Ending> = Promise.resolve(0);

  constructor(options: KillableOptions) {
    this.name = options.name;
    this.#options = options;
  }

  /** How the present life ends. */
  get ended(): Promise<Ending> {
    return this.#ended;
  }

  /** What it printed last, for messages. */
  get tail(): string {
    return `${this.name}:\n${this.#tail.map((line) => `  ${line}`).join("\n")}`;
  }

  /** Begins another life: with the same arguments, and `more` at the end. */
  start(more: readonly string[] = []): void {
    const { program, args, env } = this.#options;
    const child = spawn(process.execPath, [program, ...args, ...more], {
      env: { ...process.env, HF_TOKEN: "", ...env },
      stdio: ["ignore", "pipe", "pipe"],
    });
    this.#print(`--- ${child.pid} starts`);
    for (const stream of [child.stdout, child.stderr]) this.#readLines(stream);
    this.#child = child;
    this.#ended = new Promise((resolve) => {
      child.once("close", (code, signal) => {
        this.#print(`--- ${child.pid} ended: ${signal ?? code}`);
        resolve(signal ?? code ?? -1);
      });
    });
  }

  /** Resolves once it has printed a line like this, from now on. */
  nextLine(pattern: RegExp, signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      const end = () => {
        this.#watchers.delete(look);
        signal.removeEventListener("abort", stop);
      };
      const stop = () => {
        end();
        reject(new Error(`${this.name} printed no ${pattern}\n${this.tail}`));
      };
      const look = (line: string) => {
        if (!pattern.test(line)) return;
        end();
        resolve();
      };
      this.#watchers.add(look);
      signal.addEventListener("abort", stop);
    });
  }

  /** Resolves once it is gone. */
  async kill(): Promise<Ending> {
    this.#child?.kill("SIGKILL");
    return this.#ended;
  }

  #readLines(stream: NodeJS.ReadableStream | null): void {
    let rest = "";
    stream?.setEncoding("utf8").on("data", (chunk: string) => {
      const lines = `${rest}${chunk}`.split("\n");
      rest = lines.pop() ?? "";
      for (const line of lines) this.#print(line);
    });
  }

  #print(line: string): void {
    appendFileSync(this.#options.logFile, `${line}\n`);
    this.#tail.push(line);
    if (this.#tail.length > TAIL_LINES) this.#tail.shift();
    for (const look of [...this.#watchers]) look(line);
  }
}
