// Reads fenced code blocks out of the project's pages and runs them the way a reader would, in a folder of their
// own: TypeScript against the sources, commands through the command line.

import { execFile } from "node:child_process";
import {
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

export const root: string = fileURLToPath(new URL("../..", import.meta.url));

export interface Snippet {
  /** `README.md:42`, where the block begins. */
  readonly place: string;
  readonly language: string;
  readonly text: string;
}

/** Pages for readers, from the root of the project. */
export function pages(): string[] {
  const docs = readdirSync(join(root, "docs")).filter((file) => file.endsWith(".md"));
  return ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", ...docs.sort().map((file) => `docs/${file}`)];
}

export function snippetsOf(page: string): Snippet[] {
  const text = readFileSync(join(root, page), "utf8");
  const fence = /^```(\w*)\n(.*?)^```$/gms;
  return [...text.matchAll(fence)].map((match) => ({
    place: `${page}:${text.slice(0, match.index).split("\n").length}`,
    language: match[1]!,
    text: match[2]!,
  }));
}

/** Relative targets of links, without anchors. */
export function linksOf(page: string): string[] {
  const text = readFileSync(join(root, page), "utf8").replace(/^```.*?^```$/gms, "");
  return [...text.matchAll(/\]\(([^)#]+)[^)]*\)/g)]
    .map((match) => match[1]!)
    .filter((target) => !/^[a-z]+:/.test(target));
}

export interface Output {
  readonly code: number;
  readonly out: string;
  readonly err: string;
}

/** A folder that looks like a fresh clone to a snippet: the same data and packages, nothing else. */
export class Workplace {
  readonly folder = mkdtempSync(join(tmpdir(), "speedtronic-docs-"));

  constructor() {
    for (const name of ["assets", "configs", "node_modules"])
      symlinkSync(join(root, name), join(this.folder, name), "junction");
    this.write("package.json", '{ "type": "module" }');
  }

  write(name: string, text: string): string {
    const path = join(this.folder, name);
    writeFileSync(path, text);
    return path;
  }

  has(name: string): boolean {
    return existsSync(join(this.folder, name));
  }

  /** Runs a TypeScript program in a process of its own; `speedtronic` means the sources. */
  run(program: string, args: readonly string[] = []): Promise<Output> {
    return this.#node(["--import", "tsx", program, ...args]);
  }

  /** `speedtronic <args>` */
  speedtronic(args: readonly string[]): Promise<Output> {
    return this.run(join(root, "src/cli/main.ts"), args);
  }

  /** Type-checks all programs of the folder with the project's own settings. */
  typecheck(): Promise<Output> {
    this.write(
      "tsconfig.json",
      JSON.stringify({ extends: join(root, "tsconfig.json"), include: ["*.ts"], exclude: [] }),
    );
    return this.#node([join(root, "node_modules/typescript/bin/tsc"), "-p", this.folder]);
  }

  close(): void {
    rmSync(this.folder, { recursive: true, force: true });
  }

  #node(args: readonly string[]): Promise<Output> {
    const env = { ...process.env, TSX_TSCONFIG_PATH: join(root, "tsconfig.json"), NO_COLOR: "1" };
    return new Promise((resolve) => {
      execFile(process.execPath, args, { cwd: this.folder, env }, (error, out, err) =>
        resolve({ code: error === null ? 0 : Number(error.code ?? 1), out, err }),
      );
    });
  }
}

/** Words of a command line, quotes undone. */
export function words(line: string): string[] {
  return [...line.matchAll(/"([^"]*)"|'([^']*)'|(\S+)/g)].map((match) => match[1] ?? match[2] ?? match[3]!);
}
