// What a node does beside training: nothing of it holds a step up, and an end leaves nothing running that counts.

import { expect, it } from "vitest";

import type { CallOptions, CommitRequest } from "../../../src/distributed/transports/contract.js";
import { deltasIn, newBench, settle, TestModel } from "../node/bench.js";
import { MemoryRepo } from "../node/memory-repo.js";

/** Commits wait until they are let go, or until their signal ends them, if they listen to it. */
class SlowRepo extends MemoryRepo {
  isSlow = true;
  listens = true;
  go: () => void = () => undefined;

  override async commit(request: CommitRequest, { signal }: CallOptions = {}): Promise<string> {
    if (this.isSlow)
      await new Promise<void>((resolve, reject) => {
        this.go = resolve;
        if (this.listens) signal?.addEventListener("abort", () => reject(signal.reason));
      });
    return super.commit(request);
  }
}

async function nodeWithHangingCommit({ listens = true } = {}) {
  const repo = new SlowRepo();
  repo.listens = listens;
  const bench = newBench({ innerSteps: 1, transport: repo });
  const model = new TestModel([1]);
  const worker = bench.node();
  await worker.start(model);
  model.train(1);
  await worker.afterStep(model, 1, 1);
  await settle();
  expect(worker.state.pending).toMatchObject([{ stage: "uploading" }]);
  return { ...bench, repo, model, worker };
}

it("L-48: the end waits as long as it may, cancels the upload under way, and the next start sends the delta", async () => {
  const { repo, clock, node, model, worker, outbox, events } = await nodeWithHangingCommit();
  let hasEnded = false;
  const stopping = worker.stop(model, 3000).then(() => {
    hasEnded = true;
  });
  await clock.advance(2900);
  expect(hasEnded).toBe(false);
  await clock.advance(100);
  await stopping;
  expect(events.at(-1)).toMatchObject({ event: "node_stop", payload: { unsent_deltas: 1 } });
  expect(await outbox.outgoing.list()).toEqual(["delta_1.safetensors"]);
  expect((await deltasIn(repo)).size).toBe(0);
  repo.isSlow = false;
  const next = node();
  await next.start(model);
  await settle();
  expect([...(await deltasIn(repo)).values()]).toEqual([[-1]]);
  await next.stop(model, 0);
});

it("L-49: a request that outlives its node holds up no end, reports nothing, and its delta is sent once", async () => {
  const { repo, clock, node, model, worker, names } = await nodeWithHangingCommit({ listens: false });
  const stopping = worker.stop(model, 1000);
  await clock.advance(20_000);
  await stopping;
  repo.isSlow = false;
  const before = names().length;
  repo.go();
  await clock.advance(5000);
  expect([...(await deltasIn(repo)).values()]).toEqual([[-1]]);
  expect(names().slice(before)).toEqual([]);
  repo.calls.length = 0;
  const next = node();
  await next.start(model);
  await clock.advance(1000);
  expect(next.state.pending).toMatchObject([{ stage: "sent" }]);
  expect(repo.calls).not.toContain("commit");
  await next.stop(model, 0);
});

it("L-52: a step waits for one copy of the weights; the delta is computed and written while training goes on", async () => {
  const { repo, node, outbox } = newBench({ innerSteps: 1 });
  let goOn = () => {};
  const gate = new Promise<void>((resolve) => {
    goOn = resolve;
  });
  const write: typeof outbox.outgoing.write = async (...call) => {
    await gate;
    return outbox.outgoing.write(...call);
  };
  const model = new TestModel([1, 1]);
  const worker = node({ outbox: { ...outbox, outgoing: { ...outbox.outgoing, write } } });
  await worker.start(model);
  let copies = 0;
  const counted = {
    readState: () => {
      copies += 1;
      return model.readState();
    },
    writeState: model.writeState.bind(model),
  };
  for (const step of [1, 2, 3]) {
    model.train(step, 0);
    expect(await worker.afterStep(counted, step, 1)).toBe(false);
  }
  expect(copies).toBe(1);
  expect(await outbox.outgoing.list()).toEqual([]);
  goOn();
  await settle();
  // Of the moment of its step, though the weights went on.
  expect([...(await deltasIn(repo)).values()]).toEqual([[-1, 0]]);
  await worker.stop(model, 0);
});

it("L-104: a listener may call the node again, from within any event, and nothing waits for it", async () => {
  const calls: Promise<unknown>[] = [];
  const { repo, clock, node, names } = newBench({ innerSteps: 1 });
  const model = new TestModel([1]);
  const heard: string[] = [];
  const worker = node({
    emit: (event) => {
      heard.push(event);
      if (event === "node_start") return;
      calls.push(event === "delta_uploaded" ? worker.stop(model, 1000) : worker.checkpoint());
    },
  });
  await worker.start(model);
  model.train(1);
  await worker.afterStep(model, 1, 1);
  await clock.advance(5000);
  await Promise.all(calls);
  expect(heard).toEqual(["node_start", "delta_upload_queued", "delta_uploaded", "node_stop"]);
  expect(names()).toEqual([]);
  expect([...(await deltasIn(repo)).values()]).toEqual([[-1]]);
});
