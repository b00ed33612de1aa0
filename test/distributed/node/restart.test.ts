// A node that ends and starts again, in order or not: nothing that it learned is lost, nothing is sent twice.

import { describe, expect, it } from "vitest";

import { TransportError } from "../../../src/distributed/transports/errors.js";
import { deltasIn, newBench, publish, settle, TestModel } from "./bench.js";

const unavailable = () => new TransportError("unavailable", "nobody answers");
/** As a checkpoint does: through JSON. */
const stored = <T>(value: T): T => JSON.parse(JSON.stringify(value)) as T;

describe("after an orderly end", () => {
  it("L-43: sends the last steps at the end, as far as there is time", async () => {
    const { repo, node } = newBench({ innerSteps: 100 });
    const model = new TestModel([1]);
    const worker = node();
    await worker.start(model);
    model.train(1);
    await worker.afterStep(model, 1, 1);
    await worker.stop(model, 1000);
    expect([...(await deltasIn(repo)).values()]).toEqual([[-1]]);
  });

  it("L-47: sends from the outbox what there was no time for, without training", async () => {
    const { repo, clock, node } = newBench({ innerSteps: 100 });
    const model = new TestModel([1]);
    const first = node();
    await first.start(model);
    model.train(1);
    await first.afterStep(model, 1, 1);
    repo.fault = unavailable;
    const stopping = first.stop(model, 1000);
    await clock.advance(1000);
    await stopping;
    expect((await deltasIn(repo)).size).toBe(0);
    repo.fault = () => undefined;
    const second = node();
    await second.start(new TestModel([1]));
    await settle();
    expect([...(await deltasIn(repo)).values()]).toEqual([[-1]]);
    await second.stop(model, 0);
  });

  it("L-47: counts on from the checkpoint when it was the last thing", async () => {
    const { repo, node } = newBench({ innerSteps: 2 });
    const model = new TestModel([1]);
    const first = node();
    await first.start(model);
    model.train(1);
    await first.afterStep(model, 1, 10);
    const saved = stored(await first.checkpoint());
    const [weights] = [model.weights[0]!];
    // Killed here.
    const resumed = new TestModel([weights]);
    const second = node();
    await second.start(resumed, saved);
    resumed.train(2);
    await second.afterStep(resumed, 2, 10);
    await settle();
    expect([...(await deltasIn(repo)).values()]).toEqual([[-3]]);
    await second.stop(resumed, 0);
  });
});

describe("after a crash", () => {
  it("does not send again what a delta after the checkpoint has", async () => {
    const { repo, node } = newBench({ innerSteps: 2 });
    const model = new TestModel([1]);
    const first = node();
    await first.start(model);
    model.train(1);
    await first.afterStep(model, 1, 1);
    const saved = stored(await first.checkpoint());
    const weights = model.weights[0]!;
    model.train(1);
    await first.afterStep(model, 2, 1);
    await settle();
    expect([...(await deltasIn(repo)).values()]).toEqual([[-2]]);
    const resumed = new TestModel([weights]);
    const second = node();
    await second.start(resumed, saved);
    for (const step of [2, 3]) {
      resumed.train(4);
      await second.afterStep(resumed, step, 1);
    }
    await settle();
    const deltas = await deltasIn(repo);
    expect([...deltas.values()]).toEqual([[-2], [-8]]);
    expect(new Set(deltas.keys()).size).toBe(2);
    await second.stop(resumed, 0);
  });

  it("keeps a checkpoint's progress for its next life, whatever lives without it sent in between", async () => {
    const { repo, node } = newBench({ innerSteps: 2 });
    const model = new TestModel([1]);
    const first = node();
    await first.start(model);
    model.train(1);
    await first.afterStep(model, 1, 1);
    const saved = stored(await first.checkpoint());
    const weights = model.weights[0]!;
    // Killed; the next life starts from nothing, and is killed when it has sent a delta.
    const fresh = new TestModel([1]);
    const second = node();
    await second.start(fresh);
    for (const step of [1, 2]) {
      fresh.train(4);
      await second.afterStep(fresh, step, 1);
    }
    await settle();
    expect([...(await deltasIn(repo)).values()]).toEqual([[-8]]);
    // The checkpoint again, twice: only its first delta has the step from before it.
    for (const expected of [
      [[-8], [-1 - 16]],
      [[-8], [-1 - 16], [-32]],
    ]) {
      const resumed = new TestModel([weights]);
      const again = node();
      await again.start(resumed, saved);
      for (const step of [2, 3]) {
        resumed.train(16);
        await again.afterStep(resumed, step, 1);
      }
      await settle();
      expect([...(await deltasIn(repo)).values()]).toEqual(expected);
    }
  });

  it("installs over a checkpoint that is older than the files: each own delta is in the weights once", async () => {
    const { repo, node } = newBench({ innerSteps: 1 });
    publish(repo, { outerStep: 0, weights: [10], applied: [] });
    const model = new TestModel([0]);
    const first = node();
    await first.start(model);
    const saved = stored(await first.checkpoint());
    for (const step of [1, 2]) {
      model.train(step);
      await first.afterStep(model, step, 1);
      await settle();
    }
    const [one] = [...repo.files.keys()].filter((path) => path.startsWith("nodes/"));
    publish(repo, { outerStep: 1, weights: [111], applied: [one!] });
    const resumed = new TestModel([10]);
    const second = node();
    await second.start(resumed, saved);
    await settle();
    resumed.train(5);
    await second.afterStep(resumed, 1, 1);
    // The version has the first delta; the second is still to come; 5 is new.
    expect([...resumed.weights]).toEqual([111 + 2 + 5]);
    await second.stop(resumed, 0);
  });

  it("L-21: does not commit a delta again that got through before", async () => {
    const { repo, node } = newBench({ innerSteps: 1 });
    const model = new TestModel([1]);
    const first = node();
    await first.start(model);
    repo.fault = (call) =>
      call === "commit" ? { after: new TransportError("ambiguous", "gone") } : undefined;
    let isCut = false;
    const cut = repo.fault;
    repo.fault = (call) => {
      if (isCut) return unavailable();
      isCut = call === "commit";
      return cut(call);
    };
    model.train(1);
    await first.afterStep(model, 1, 1);
    await settle();
    expect((await deltasIn(repo)).size).toBe(1);
    repo.fault = () => undefined;
    const second = node();
    await second.start(new TestModel([1]));
    await settle();
    expect(repo.calls.filter((call) => call === "commit")).toHaveLength(1);
    expect(second.state.pending[0]?.stage).toBe("sent");
    await second.stop(model, 0);
  });

  it("says so when its files are gone", async () => {
    const { node, events } = newBench({ innerSteps: 1 });
    const model = new TestModel([1]);
    const first = node();
    await first.start(model);
    const saved = stored(await first.checkpoint());
    const other = newBench();
    const second = node({ outbox: other.outbox });
    await second.start(model, saved);
    expect(events.at(-2)).toMatchObject({
      event: "node_state_failed",
      payload: { error: expect.stringContaining("not those of the checkpoint") },
    });
    await first.stop(model, 0);
    await second.stop(model, 0);
  });
});
