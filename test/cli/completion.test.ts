// Completion scripts: they know every command and option, and a real bash completes with theirs.

import { execFileSync, spawnSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Command } from "commander";
import { beforeAll, describe, expect, it } from "vitest";
import { describeProgram } from "../../src/cli/run.js";
import { allKeys } from "../../src/config/key-help.js";
import { cli, scratchFolder } from "./harness.js";

const folder = scratchFolder();
const nothing = (): void => undefined;
let program: Command;
const scripts: Record<string, string> = {};

beforeAll(async () => {
  program = await describeProgram({
    out: nothing,
    err: nothing,
    stream: { write: nothing },
    env: {},
    isTerminal: false,
    onOutputClosed: nothing,
    onOutputFailed: nothing,
  });
  for (const shell of ["bash", "zsh", "fish"]) {
    const { code, out, err } = await cli(["completion", shell]);
    expect({ code, err }).toEqual({ code: 0, err: "" });
    scripts[shell] = out;
    writeFileSync(join(folder, `script.${shell}`), out);
  }
});

function everyCommand(command: Command, path = ""): [path: string, command: Command][] {
  return [
    [path, command],
    ...command.commands.flatMap((child) => everyCommand(child, `${path}/${child.name()}`)),
  ];
}

/** What bash offers for the last of `words`. */
function offered(...words: string[]): string[] {
  const script = `
    source ${join(folder, "script.bash")}
    COMP_WORDS=(speedtronic "$@"); COMP_CWORD=$#
    _speedtronic
    printf '%s\\n' "\${COMPREPLY[@]}"`;
  const text = execFileSync("bash", ["--norc", "-c", script, "bash", ...words], { encoding: "utf8" });
  return text.split("\n").filter((line) => line !== "");
}

describe("bash", () => {
  it("offers the commands, and those of a group", () => {
    const names = program.commands.map((command) => command.name());
    expect(offered("")).toEqual(expect.arrayContaining(names));
    expect(offered("va")).toEqual(["validate"]);
    expect(offered("ckpt", "co")).toEqual(["convert"]);
    expect(offered("ckpt", "")).toContain("merge-lora");
  });

  it("offers the options of the command that stands there", () => {
    expect(offered("train", "--re")).toEqual(["--resume", "--rename"]);
    expect(offered("generate", "--prompt", "x", "--te")).toEqual(["--temperature"]);
    expect(offered("ckpt", "merge-lora", "runs/x", "--ba")).toEqual(["--base"]);
  });

  it("offers values where they are known, and leaves files to bash", () => {
    expect(offered("validate", "--format", "")).toEqual(["yaml", "json"]);
    expect(offered("validate", "-f", "y")).toEqual(["yaml"]);
    expect(offered("completion", "")).toEqual(["bash", "zsh", "fish"]);
    expect(offered("train", "--config", "")).toEqual([]);
  });

  it("offers the keys of a configuration after --set", () => {
    expect(offered("train", "--set", "optimizer.l")).toEqual(["optimizer.lr="]);
    expect(offered("train", "-s", "")).toEqual(allKeys().map(({ path }) => `${path}=`));
  });
});

describe.each(["bash", "zsh", "fish"])("the script of %s", (shell) => {
  it("knows every command and every option", () => {
    const script = scripts[shell]!;
    for (const [path, command] of everyCommand(program)) {
      expect(script).toContain(path);
      for (const { long } of command.options) {
        const written = shell === "fish" ? `-l ${long!.slice(2)} ` : long!;
        expect(script, `${path} ${long}`).toContain(written);
      }
    }
  });

  it("knows every key", () => {
    for (const { path } of allKeys()) expect(scripts[shell]).toContain(`${path}=`);
  });

  const isInstalled = spawnSync(shell, ["-c", "exit 0"]).status === 0;
  it.skipIf(!isInstalled)("is one that the shell itself can read", () => {
    const { status, stderr } = spawnSync(shell, ["-n", join(folder, `script.${shell}`)], {
      encoding: "utf8",
    });
    expect({ status, stderr }).toEqual({ status: 0, stderr: "" });
  });
});

describe("completion", () => {
  it("answers another shell with those that there are", async () => {
    const { code, err } = await cli(["completion", "tcsh"]);
    expect(code).toBe(2);
    expect(err).toContain("Allowed choices are bash, zsh, fish");
  });
});
