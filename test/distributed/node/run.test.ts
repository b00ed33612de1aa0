// Whole runs of the public API as a node: what a configuration with `distributed.enabled` does, with the real engine.

import { cpSync } from "node:fs";
import { join } from "node:path";

import { buildRuntime, trainFromConfig } from "speedtronic";
import { loadCheckpoint } from "speedtronic/checkpoint";
import { describe, expect, it } from "vitest";

import type { ConfigInput } from "../../../src/config/schema.js";
import { TransportError } from "../../../src/distributed/transports/errors.js";
import { loadDelta } from "../../../src/distributed/wire/index.js";
import {
  bytesSource,
  encodeSafetensors,
  type SafetensorsReader,
} from "../../../src/formats/safetensors/index.js";
import { recordEvents, temporaryFolder, tinyConfig } from "../../train/helpers.js";
import { publish } from "./bench.js";
import { MemoryRepo } from "./memory-repo.js";

function nodeConfig(
  outputDir: string,
  maxSteps: number,
  distributed: ConfigInput["distributed"] = {},
): ConfigInput {
  return {
    ...tinyConfig(outputDir, { run: { max_steps: maxSteps } }),
    distributed: {
      enabled: true,
      role: "worker",
      repo_id: "a/b",
      node_id: "w1",
      inner_steps: 2,
      poll_interval: 0.01,
      retry_initial: 0.01,
      retry_max: 0.01,
      delta_upload_shutdown_timeout: 60,
      ...distributed,
    },
  };
}

const deltaPaths = (repo: MemoryRepo) =>
  [...repo.files.keys()]
    .filter((path) => path.startsWith("nodes/"))
    .sort((a, b) => a.length - b.length || (a < b ? -1 : 1));

async function valuesOf(reader: SafetensorsReader): Promise<Map<string, Float32Array>> {
  const values = new Map<string, Float32Array>();
  for (const name of reader.entries.keys()) {
    const { bytes } = await reader.read(name);
    values.set(name, new Float32Array(new Uint8Array(bytes).buffer));
  }
  await reader.close();
  return values;
}

const delta = async (repo: MemoryRepo, path: string) => {
  const { reader, header } = await loadDelta(bytesSource(repo.files.get(path)!));
  return { header, values: await valuesOf(reader) };
};

const checkpointWeights = async (outputDir: string, step: number) => {
  const name = `step-${String(step).padStart(12, "0")}`;
  const { content } = await loadCheckpoint(join(outputDir, "checkpoints", name));
  return new Map([...content.model].map(([key, { data }]) => [key, data as Float32Array]));
};

describe("a worker without any version", () => {
  it("sends what it learned, under the names of its state dict, tied ones included", async () => {
    const repo = new MemoryRepo();
    const outputDir = temporaryFolder();
    const events = recordEvents();
    await trainFromConfig(nodeConfig(outputDir, 4), { transport: repo, hooks: [events.hook] });
    const paths = deltaPaths(repo);
    expect(paths).toHaveLength(2);
    const { header, values } = await delta(repo, paths[0]!);
    expect(header).toMatchObject({ nodeId: "w1", baseOuterStep: -1, localStep: 2 });
    expect(header.extra.get("tokens")).toBe(String(2 * 2 * 8));
    expect(JSON.parse(header.extra.get("fingerprint")!)).toMatchObject({ d_model: 8, dtype: "float32" });
    const at2 = await checkpointWeights(outputDir, 2);
    expect([...values.keys()].sort()).toEqual([...at2.keys()].sort());
    const second = await delta(repo, paths[1]!);
    const at4 = await checkpointWeights(outputDir, 4);
    for (const [name, found] of second.values)
      expect(found).toEqual(at2.get(name)!.map((x, i) => x - at4.get(name)![i]!));
    expect(events.names()).toContain("node_stop:4");
  });
});

describe("a worker under a version", () => {
  it("starts from it, and goes on from checkpoint and outbox after a restart", async () => {
    const first = new MemoryRepo();
    const outputDir = temporaryFolder();
    await trainFromConfig(nodeConfig(temporaryFolder(), 2), { transport: first });
    // A version made of nothing but ones, in the shapes of the model.
    const { values } = await delta(first, deltaPaths(first)[0]!);
    const { reader } = await loadDelta(bytesSource(first.files.get(deltaPaths(first)[0]!)!));
    const tensors = [...values].map(([name, data]) => ({
      name,
      dtype: "F32" as const,
      shape: reader.entry(name).shape,
      data: data.map(() => 1),
    }));
    const repo = new MemoryRepo();
    publish(repo, { outerStep: 0, weights: [], applied: [], file: encodeSafetensors(tensors) });
    const events = recordEvents();
    await trainFromConfig(nodeConfig(outputDir, 3), { transport: repo, hooks: [events.hook] });
    expect(events.of("global_installed")).toMatchObject([{ outer_step: 0, step: 0 }]);
    const sum = async () => {
      const deltas = await Promise.all(deltaPaths(repo).map((path) => delta(repo, path)));
      return (name: string, i: number) => deltas.reduce((total, d) => total + d.values.get(name)![i]!, 0);
    };
    const expectExact = async (step: number) => {
      const total = await sum();
      // G minus all that was sent is what the node has: every step once.
      for (const [name, weights] of await checkpointWeights(outputDir, step))
        for (const [i, weight] of weights.entries()) expect(weight).toBeCloseTo(1 - total(name, i), 5);
    };
    expect(deltaPaths(repo)).toHaveLength(2);
    await expectExact(3);
    await trainFromConfig(nodeConfig(outputDir, 5), { transport: repo, resume: true });
    expect(deltaPaths(repo)).toHaveLength(3);
    await expectExact(5);
  });

  it("trains on when the repository goes away in between, and sends the rest next time", async () => {
    const repo = new MemoryRepo();
    const outputDir = temporaryFolder();
    const events = recordEvents((event, { step }) => {
      if (event === "train_step" && step === 1) repo.fault = () => new TransportError("unavailable", "gone");
    });
    const config = { delta_upload_shutdown_timeout: 0.05 };
    const result = await trainFromConfig(nodeConfig(outputDir, 5, config), {
      transport: repo,
      hooks: [events.hook],
    });
    expect(result.steps).toBe(5);
    expect(deltaPaths(repo)).toHaveLength(0);
    expect(events.of("node_stop")).toMatchObject([{ unsent_deltas: expect.any(Number) }]);
    expect(events.of("node_waiting").length).toBeGreaterThan(0);
    repo.fault = () => undefined;
    await trainFromConfig(nodeConfig(outputDir, 6), { transport: repo, resume: true });
    const steps = await Promise.all(
      deltaPaths(repo).map(async (path) => Number((await delta(repo, path)).header.extra.get("steps"))),
    );
    expect(steps.reduce((a, b) => a + b)).toBe(6);
  });
});

const sentSteps = async (repo: MemoryRepo) => {
  const headers = await Promise.all(
    deltaPaths(repo).map(async (path) => (await delta(repo, path)).header.extra),
  );
  return headers.reduce((sum, extra) => sum + Number(extra.get("steps")), 0);
};

describe("a worker that has reached its last step", () => {
  it("hands over what it could not send when it is called again, and only that", async () => {
    const repo = new MemoryRepo();
    const outputDir = temporaryFolder();
    const config = nodeConfig(outputDir, 5, { delta_upload_shutdown_timeout: 0.05 });
    const cutOff = recordEvents((event, { step }) => {
      if (event === "train_step" && step === 1) repo.fault = () => new TransportError("unavailable", "gone");
    });
    await trainFromConfig(config, { transport: repo, hooks: [cutOff.hook] });
    repo.fault = () => undefined;
    const result = await trainFromConfig(nodeConfig(outputDir, 5), { transport: repo, resume: true });
    expect(result).toMatchObject({ steps: 5, finalLoss: null });
    expect(await sentSteps(repo)).toBe(5);
    repo.calls.length = 0;
    await trainFromConfig(nodeConfig(outputDir, 5), { transport: repo, resume: true });
    expect(repo.calls).toEqual([]);
  });

  it("hands over its last steps after a crash between its last checkpoint and its last delta", async () => {
    const repo = new MemoryRepo();
    const outputDir = temporaryFolder();
    const crashed = join(temporaryFolder(), "crashed");
    const atCrash = recordEvents((event, { reason }) => {
      if (event !== "checkpoint" || reason !== "final") return;
      repo.fault = () => new TransportError("unavailable", "gone");
      const isLock = (path: string) => /\.lock-\d+$/.test(path);
      cpSync(outputDir, crashed, { recursive: true, filter: (path) => !isLock(path) });
    });
    const config = nodeConfig(outputDir, 5, { inner_steps: 100, delta_upload_shutdown_timeout: 0.05 });
    // Only a final one: one that is written beside training may be late.
    const checkpoint = { ...config.checkpoint, every_steps: 100 };
    await trainFromConfig({ ...config, checkpoint }, { transport: repo, hooks: [atCrash.hook] });
    repo.fault = () => undefined;
    expect(await sentSteps(repo)).toBe(0);
    await trainFromConfig(nodeConfig(crashed, 5, { inner_steps: 100 }), { transport: repo, resume: true });
    expect(await sentSteps(repo)).toBe(5);
  });
});

describe("a configuration that cannot be followed", () => {
  it("is refused while another run has the same node", async () => {
    const outputDir = temporaryFolder();
    const transport = new MemoryRepo();
    const runtime = await buildRuntime(nodeConfig(outputDir, 2), { transport });
    const other = { ...nodeConfig(outputDir, 2), checkpoint: { directory: "elsewhere" } };
    await expect(trainFromConfig(other, { transport })).rejects.toMatchObject({
      code: "node.locked",
      message: expect.stringContaining("this process itself"),
    });
    await runtime.close();
    expect((await trainFromConfig(other, { transport })).steps).toBe(2);
  });

  it("ends with the repository's reason where that refuses for good", async () => {
    const repo = new MemoryRepo();
    repo.fault = () => new TransportError("denied", "the token has no right to read");
    const run = trainFromConfig(nodeConfig(temporaryFolder(), 2), { transport: repo });
    await expect(run).rejects.toMatchObject({ code: "transport.denied", exitCode: 6 });
  });
});
