// Runs that share their data over a repository in memory, with the product's trainer, node and aggregator: interruptions
// leave no trace in the bits.

import { type ConfigInput, trainFromConfig } from "speedtronic";
import { loadCheckpoint } from "speedtronic/checkpoint";
import { afterEach, describe, expect, it } from "vitest";
import {
  Aggregator,
  diskSurroundings,
  MemoryRepository,
  MemoryTransport,
} from "../../src/distributed/index.node.js";
import { leaseFields } from "../../src/distributed/protocol/lease-fields.js";
import {
  FormulaDataset,
  recordEvents,
  temporaryFolder,
  tinyConfig,
  tinyModelFile,
  weightHashes,
} from "./helpers.js";

const closers: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});

function nodeConfig(outputDir: string, nodeId: string, shards: number, maxSteps: number): ConfigInput {
  return {
    ...tinyConfig(outputDir, {
      run: { max_steps: maxSteps },
      model: { dropout: 0.2 },
      data: { micro_batch_size: 2, target_batch_size: 4, shuffle: true, virtual_shards: shards },
      checkpoint: { every_steps: 3 },
    }),
    distributed: {
      enabled: true,
      role: "worker",
      repo_id: "lab/run",
      node_id: nodeId,
      inner_steps: 2,
      poll_interval: 0.005,
      delta_upload_shutdown_timeout: 60,
    },
  };
}

/** A repository with version 0, to which no other is added. */
async function newRun(name: string, shardCount: number) {
  const repository = new MemoryRepository({ name });
  const connect = () => {
    const transport = new MemoryTransport(repository);
    closers.push(() => transport.close());
    return transport;
  };
  const weights = await tinyModelFile();
  await Aggregator.start({
    transport: connect(),
    surroundings: await diskSurroundings(temporaryFolder()),
    settings: {
      outerLr: 0.7,
      outerMomentum: 0.5,
      momentumWarmupRounds: 2,
      merge: "tokens",
      stalenessLimit: 1000,
      stalenessDiscount: 1,
      clipFactor: null,
      quorum: 1,
      graceMs: 0,
      keepVersions: 1000,
    },
    masterId: "master",
    pollIntervalMs: 5,
    recordFields: leaseFields({ shardCount }),
    bootstrap: { writeState: async (sink) => sink.write(weights) },
  });
  return { connect };
}

describe("a node that shares its data", { timeout: 300_000 }, () => {
  /** Samples that neither batches nor shards divide, so that steps end within shards and pass several epochs. */
  const dataset = () => new FormulaDataset(23);

  it("leaves no trace of interruptions in the order of its own walk", async () => {
    const train = async (name: string, stops: readonly number[]) => {
      const { connect } = await newRun(name, 7);
      const outputDir = temporaryFolder();
      const losses = new Map<number, number>();
      const modes: unknown[] = [];
      const continueUntil = async (stopAt: number) => {
        const control = new AbortController();
        const events = recordEvents((event, { step, loss, mode }) => {
          if (event === "data_leases") modes.push(mode);
          if (event !== "train_step") return;
          losses.set(step as number, loss as number);
          if (step === stopAt) control.abort("test");
        });
        const { steps } = await trainFromConfig(nodeConfig(outputDir, "a", 7, 24), {
          resume: losses.size > 0,
          dataset: dataset(),
          transport: connect(),
          signal: control.signal,
          hooks: [events.hook],
        });
        expect(steps).toBe(stopAt);
      };
      for (const stopAt of [...stops, 24]) await continueUntil(stopAt);
      const { content } = await loadCheckpoint(outputDir);
      return { losses, modes, weights: await weightHashes(outputDir, 24), data: content.trainer.data };
    };
    const whole = await train("whole", []);
    const cut = await train("cut", [9, 12, 17]);
    expect([...new Set([...whole.modes, ...cut.modes])]).toEqual(["walk"]);
    expect([...cut.losses]).toEqual([...whole.losses]);
    expect(whole.losses.size).toBe(24);
    expect(cut.weights).toEqual(whole.weights);
    expect(cut.data).toEqual(whole.data);
  });
});
