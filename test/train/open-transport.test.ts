// Which repository `distributed.repo_id` means, and what is said where it means none.

import { trainFromConfig } from "speedtronic";
import { afterEach, describe, expect, it } from "vitest";
import { applyOverrides } from "../../src/config/overrides.js";
import { resolveConfig } from "../../src/config/resolve.js";
import type { ConfigSource } from "../../src/config/source.js";
import { forgetMemoryRepository, sharedMemoryRepository } from "../../src/distributed/transports/memory.js";
import { openTransport } from "../../src/train/open-transport.node.js";
import { cli } from "../cli/harness.js";
import { temporaryFolder, tinyConfig } from "./helpers.js";

afterEach(() => forgetMemoryRepository("lab"));

const open = (repo: string | null) => {
  const source =
    repo === null ? {} : applyOverrides({}, [{ path: "distributed.repo_id", value: repo, option: "test" }]);
  const { distributed } = resolveConfig(source as ConfigSource);
  return openTransport({ ...distributed, repo_id: repo }, {}, () => undefined);
};

describe("distributed.repo_id", () => {
  it.each([
    ["lab/run", "lab/run at https://huggingface.co"],
    ["file:/mnt/run", "file:/mnt/run"],
    ["memory:lab", "memory:lab"],
  ])("%s", (repo, title) => {
    expect(open(repo).title).toBe(title);
  });

  it.each([
    [null, "it is not set"],
    ["run", "org/name, with one slash"],
    ["s3://bucket/run", "s3: is no form of repository that is known"],
    ["https://huggingface.co/lab/run", "https: is no form of repository that is known"],
    ["file:", "the folder is missing"],
    ["memory:", "the name must be 1 to 64 letters"],
    ["memory:../x", "the name must be 1 to 64 letters"],
    ["C:\\run", "org/name, with one slash"],
  ])("%j is none: all three forms are named", (repo, reason) => {
    expect(() => open(repo)).toThrow(reason);
    expect(() => open(repo)).toThrow(/org\/name .*file:PATH .*memory:NAME/);
  });

  it("memory:NAME is one repository for all runs of a process", async () => {
    const config = (node_id: string) => ({
      ...tinyConfig(temporaryFolder(), { run: { max_steps: 4, seed: 3 } }),
      distributed: {
        enabled: true,
        role: "worker" as const,
        repo_id: "memory:lab",
        node_id,
        inner_steps: 2,
        poll_interval: 0.02,
        delta_upload_shutdown_timeout: 60,
      },
    });
    await open("memory:lab").create();
    await trainFromConfig(config("a"));
    await trainFromConfig(config("b"));
    const nodes = [...sharedMemoryRepository("lab").files().keys()].map((path) => path.split("/")[1]);
    expect(new Set(nodes)).toEqual(new Set(["a", "b"]));
  });

  it("memory:NAME is refused by commands that only look: they are other processes", async () => {
    const { code, err } = await cli(["status", "memory:lab"]);
    expect(code).toBe(2);
    expect(err).toMatch(/is seen by one process only.*use file:PATH/);
  });
});
