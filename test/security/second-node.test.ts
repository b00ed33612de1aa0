// Two processes of one name. On one machine the second one does not start; on two machines, or with a copied state
// folder, the later one sends nothing and says why. Two masters: see "one master at a time" in test/distributed/aggregator.

import { describe, expect, it } from "vitest";
import { openStateFolder } from "../../src/distributed/node/state-folder.node.js";
import type { WorkerNodeOptions } from "../../src/distributed/node/worker-driver.js";
import { deltaFile } from "../distributed/aggregator/repository.js";
import { newBench, TestModel } from "../distributed/node/bench.js";
import { f32 } from "../distributed/states.js";
import { temporaryFolder } from "../train/helpers.js";

const digits = (seed: number) => {
  let at = seed;
  return () => {
    at = (at * 16807) % 2147483647;
    return at / 2147483647;
  };
};

/** Two nodes of one name in one repository, each on a machine of its own. */
function twins(more: Partial<WorkerNodeOptions> = {}) {
  const first = newBench({ random: digits(1) });
  const second = newBench({ random: digits(2), transport: first.repo, clock: first.clock, ...more });
  const run = async (bench: typeof first) => {
    const model = new TestModel([0, 0]);
    const node = bench.node();
    await node.start(model);
    let step = 0;
    return {
      node,
      model,
      /** One inner round. */
      async round() {
        for (let i = 0; i < 2; i++) {
          model.train(1, 1);
          step += 1;
          await node.afterStep(model, step, 1);
        }
        await first.clock.advance(0);
      },
      sent: () => [...first.repo.files.keys()].filter((path) => path.startsWith("nodes/a/")).length,
    };
  };
  return { first, second, run };
}

const told = (bench: ReturnType<typeof newBench>, name: string) =>
  bench.events.filter(({ event }) => event === name).map(({ payload }) => payload);

describe("security: a second node with the same id", () => {
  it("is not started on the same machine, and says who has the name", async () => {
    const options = { root: temporaryFolder(), nodeId: "a", repoKey: "repository" };
    const folder = await openStateFolder(options);
    await expect(openStateFolder(options)).rejects.toMatchObject({
      code: "node.locked",
      message: expect.stringMatching(
        /node "a" is run by this process itself .* give this node another distributed\.node_id/,
      ),
    });
    await folder.release();
    await (await openStateFolder(options)).release();
  });

  it("on another machine sends nothing more, keeps what it learned, and says why; the first one is told", async () => {
    const { first, second, run } = twins();
    const a = await run(first);
    await a.round();
    const b = await run(second);
    await b.round();
    await a.round();
    expect(a.sent()).toBe(3);
    await b.round();
    expect(a.sent()).toBe(3);
    const [refused] = told(second, "delta_upload_failed");
    expect(refused).toMatchObject({
      is_permanent: true,
      error: expect.stringMatching(
        /^another process is node "a" as well, and was so before this one: it sent nodes\/a\/delta_/,
      ),
    });
    expect(b.node.state.pending.filter(({ stage }) => stage === "queued")).toHaveLength(1);
    expect(told(first, "node_id_shared")).toMatchObject([{ node_id: "a" }]);
    expect(told(first, "delta_upload_failed")).toEqual([]);
    await a.round();
    await b.round();
    expect(a.sent()).toBe(4);
    expect(told(second, "delta_upload_failed")).toHaveLength(1);
  });

  it("goes on once the other has stopped", async () => {
    const { first, second, run } = twins();
    const a = await run(first);
    await a.round();
    const b = await run(second);
    await b.round();
    await a.round();
    await b.round();
    await a.node.stop(a.model, 0);
    await first.clock.advance(601_000);
    expect(a.sent()).toBe(4);
    expect(b.node.state.pending.every(({ stage }) => stage === "sent")).toBe(true);
  });

  it("begun at the same moment: whose first delta is committed first stays", async () => {
    const { first, second, run } = twins();
    const [a, b] = [await run(first), await run(second)];
    await b.round();
    await a.round();
    await b.round();
    await a.round();
    expect(told(first, "delta_upload_failed")).toHaveLength(1);
    expect(told(second, "delta_upload_failed")).toEqual([]);
  });

  it("a Python node of that name counts as one", async () => {
    const { first, run } = twins();
    const delta = (localStep: number) =>
      deltaFile({ nodeId: "a", localStep, baseOuterStep: -1 }, f32("w", 1, 1));
    first.repo.put({ "nodes/a/delta_100.safetensors": await delta(100) });
    const a = await run(first);
    await a.round();
    expect(told(first, "delta_upload_failed")).toEqual([]);
    first.repo.put({ "nodes/a/delta_200.safetensors": await delta(200) });
    await a.round();
    expect(told(first, "delta_upload_failed")[0]!.error).toContain("nodes/a/delta_200.safetensors");
  });

  it("with a copy of the state folder does not overwrite what the other sent", async () => {
    const { first, second, run } = twins({ random: digits(1) });
    const a = await run(first);
    const b = await run(second);
    await a.round();
    const [path] = [...first.repo.files.keys()];
    const before = first.repo.files.get(path!);
    b.model.train(5, 5);
    await b.round();
    expect(first.repo.files.get(path!)).toBe(before);
    expect(told(second, "delta_upload_failed")[0]!.error).toContain(`it sent ${path}`);
  });

  it("restarted without its files is no second node", async () => {
    const { first, second, run } = twins();
    const a = await run(first);
    await a.round();
    await a.round();
    await a.node.stop(a.model, 0);
    const again = await run(second);
    await again.round();
    await again.round();
    expect(again.sent()).toBe(4);
    expect(told(second, "delta_upload_failed")).toEqual([]);
  });
});
