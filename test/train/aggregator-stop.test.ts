// An aggregator that is told to end while a publication cannot succeed.

import { expect, test } from "vitest";
import { resolveConfig } from "../../src/config/resolve.js";
import { TransportError } from "../../src/distributed/transports/errors.js";
import { MemoryRepository, MemoryTransport } from "../../src/distributed/transports/memory.js";
import { trainFromConfig } from "../../src/index.js";
import { runAggregator } from "../../src/train/run-aggregator.node.js";
import { temporaryFolder, tinyConfig } from "./helpers.js";

test.each([true, false])(
  "with drainOnly %s it ends without an error, and says what it published",
  async (drainOnly) => {
    const repository = new MemoryRepository({ name: `stop-${drainOnly}` });
    const config = (role: "worker" | "master") =>
      resolveConfig({
        ...tinyConfig(temporaryFolder(), { run: { max_steps: 3 } }),
        distributed: {
          enabled: true,
          role,
          repo_id: "memory:stop",
          inner_steps: 3,
          poll_interval: 0.02,
          grace_seconds: 0,
        },
      });
    const transport = new MemoryTransport(repository);
    await runAggregator({ config: config("master"), transport, drainOnly: true });
    await trainFromConfig(config("worker"), { transport: new MemoryTransport(repository) });

    const stop = new AbortController();
    const full = new MemoryTransport(repository);
    const commit = full.commit.bind(full);
    let commits = 0;
    full.commit = async (...args) => {
      // The first one says who the master is.
      if (++commits === 1) return commit(...args);
      setTimeout(() => stop.abort("SIGTERM"), 20);
      throw new TransportError("unavailable", "no space left");
    };
    const ended = runAggregator({
      config: config("master"),
      transport: full,
      drainOnly,
      takeOver: true,
      signal: stop.signal,
    });
    expect(await ended).toEqual({ outerStep: 0, published: 0 });
    expect(commits).toBeGreaterThan(1);
  },
);
