// Limits that only show in whole runs: what a configuration makes of a node or a master, with the real engine.

import { readdir, readFile } from "node:fs/promises";
import { extname, join } from "node:path";
import { buildRuntime, trainFromConfig } from "speedtronic";
import { loadCheckpoint } from "speedtronic/checkpoint";
import { expect, it } from "vitest";

import { resolveConfig } from "../../../src/config/resolve.js";
import type { ConfigInput } from "../../../src/config/schema.js";
import {
  loadDelta,
  MemoryRepository,
  MemoryTransport,
  TransportError,
} from "../../../src/distributed/index.js";
import { bytesSource, parseSafetensors } from "../../../src/formats/safetensors/index.js";
import { FormulaDataset, recordEvents, temporaryFolder, tinyConfig } from "../../train/helpers.js";
import { MemoryRepo } from "../node/memory-repo.js";

function fleetConfig(
  outputDir: string,
  maxSteps: number,
  distributed: ConfigInput["distributed"],
): ConfigInput {
  return {
    ...tinyConfig(outputDir, { run: { max_steps: maxSteps }, checkpoint: { every_steps: 1000 } }),
    distributed: {
      enabled: true,
      repo_id: "a/b",
      node_id: "one",
      inner_steps: 2,
      poll_interval: 0.01,
      retry_initial: 0.01,
      retry_max: 0.01,
      delta_upload_shutdown_timeout: 0.05,
      keep_versions: 1000,
      ...distributed,
    },
  };
}

const lastCounters = async (outputDir: string) => {
  const { content } = await loadCheckpoint(join(outputDir, "checkpoints"));
  return { step: content.trainer.step, updates: content.trainer.counters.optimizerUpdates };
};

it.each([false, true])(
  "L-42: moments outlive uploads that are queued or fail, with reset_inner_optimizer %s",
  async (reset_inner_optimizer) => {
    const outputDir = temporaryFolder();
    const transport = new MemoryRepo();
    transport.fault = (call) => (call === "commit" ? new TransportError("unavailable", "gone") : undefined);
    const events = recordEvents();
    const config = fleetConfig(outputDir, 6, { role: "worker", reset_inner_optimizer });
    await trainFromConfig(config, { transport, hooks: [events.hook] });
    expect(events.of("delta_upload_queued").length).toBeGreaterThan(0);
    expect(await lastCounters(outputDir)).toEqual({ step: 6, updates: 6 });
  },
);

it.each([false, true])(
  "L-42: an install keeps the moments unless reset_inner_optimizer is set: %s",
  async (reset_inner_optimizer) => {
    const outputDir = temporaryFolder();
    const installed = new AbortController();
    const events = recordEvents((event, payload) => {
      if (event === "global_installed" && Number(payload.step) > 0) installed.abort("installed");
    });
    const config = fleetConfig(outputDir, 1_000_000, { role: "master", reset_inner_optimizer });
    const transport = new MemoryTransport(new MemoryRepository());
    await trainFromConfig(config, { transport, hooks: [events.hook], signal: installed.signal });
    const last = events.of("global_installed").at(-1)!.step;
    expect(last).toBeGreaterThan(0);
    const { step, updates } = await lastCounters(outputDir);
    expect(updates).toBe(reset_inner_optimizer ? step - last : step);
  },
);

it("L-50: a second fit of a master goes on: it publishes again, and every step is in the sum once", async () => {
  const repository = new MemoryRepository();
  let tellPublished = () => {};
  const events = recordEvents((event) => {
    if (event === "version_published") tellPublished();
  });
  const samples = new FormulaDataset(64);
  let isBroken = true;
  let published = Promise.resolve();
  const dataset = {
    length: samples.length,
    describe: () => samples.describe(),
    get: async (index: number) => {
      const steps = events.of("train_step").length;
      if (steps === 3 && isBroken) {
        isBroken = false;
        throw new Error("the disk is on fire");
      }
      // The last steps wait for a version of this fit; its end would make one in any case.
      if (steps > 6) await published;
      return samples.get(index);
    },
  };
  const config = fleetConfig(temporaryFolder(), 12, { role: "master", delta_upload_shutdown_timeout: 60 });
  const transport = new MemoryTransport(repository);
  const runtime = await buildRuntime(config, { dataset, transport, hooks: [events.hook] });
  await expect(runtime.trainer.fit()).rejects.toThrow("the disk is on fire");
  const before = events.of("master_stop").at(-1)!.outer_step;
  published = new Promise((resolve) => {
    tellPublished = resolve;
  });
  expect((await runtime.trainer.fit()).steps).toBe(12);
  await runtime.close();
  expect(events.of("master_stop").at(-1)!.outer_step).toBeGreaterThan(before);
  expect(events.of("master_failed")).toEqual([]);
  const files = repository.files();
  const { entries } = JSON.parse(new TextDecoder().decode(files.get("global/ledger.json")));
  const paths = [...files.keys()].filter((path) => path.startsWith("nodes/"));
  const headers = await Promise.all(
    paths.map(async (path) => (await loadDelta(bytesSource(files.get(path)!))).header),
  );
  const steps = headers.map(({ extra }) => Number(extra.get("steps")));
  expect(steps.reduce((a, b) => a + b)).toBe(12);
  expect(entries).toHaveLength(paths.length);
});

it("L-54: a run that is told to take part is never one that does nothing", async () => {
  const single = { enabled: true, role: "single" } as const;
  expect(resolveConfig({ distributed: { ...single, repo_id: "a/b" } }).distributed.role).toBe("master");
  const config: ConfigInput = { ...tinyConfig(temporaryFolder()), distributed: single };
  await expect(buildRuntime(config)).rejects.toThrow(/distributed\.repo_id/);
});

it("L-64: no file of a run or of its repository is a pickle: tensors are safetensors, the rest is text", async () => {
  const outputDir = temporaryFolder();
  const repository = new MemoryRepository();
  const config = fleetConfig(outputDir, 4, { role: "master" });
  await trainFromConfig(config, { transport: new MemoryTransport(repository) });
  const local = (await readdir(outputDir, { recursive: true, withFileTypes: true })).filter((e) =>
    e.isFile(),
  );
  const files = await Promise.all(
    local.map(async ({ parentPath, name }) => [name, await readFile(join(parentPath, name))] as const),
  );
  const kinds = new Set<string>();
  for (const [name, bytes] of [...files, ...repository.files()]) {
    kinds.add(extname(name));
    if (name.endsWith(".safetensors")) parseSafetensors(new Uint8Array(bytes));
    else if (name.endsWith(".json")) JSON.parse(new TextDecoder().decode(bytes));
    else expect(new TextDecoder("utf-8", { fatal: true }).decode(bytes), name).toMatch(/^[\t\n\x20-\x7e]*$/);
  }
  expect([...kinds].sort()).toEqual(expect.arrayContaining([".json", ".safetensors"]));
});

it.each(["../x", "/etc", "a/b", "a\\b", "", " ", ".", "..", "a.", "con", "é", "x".repeat(65)])(
  "L-65: the node id %j is refused in a configuration",
  (node_id) => {
    expect(() => resolveConfig({ distributed: { enabled: true, repo_id: "a/b", node_id } })).toThrow(
      /node_id/,
    );
  },
);

it("L-65: a node id is used as it was checked, without the spaces around it", () => {
  const { distributed } = resolveConfig({
    distributed: { enabled: true, repo_id: "a/b", node_id: " attic " },
  });
  expect(distributed.node_id).toBe("attic");
});
