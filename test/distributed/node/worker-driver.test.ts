// The training node against a scripted master: what it sends, what it installs, and what it makes of failures.

import { describe, expect, it } from "vitest";

import { TransportError } from "../../../src/distributed/transports/errors.js";
import { loadDelta } from "../../../src/distributed/wire/index.js";
import { bytesSource } from "../../../src/formats/safetensors/index.js";
import { deltasIn, newBench, publish, settle, stateFile, TestModel } from "./bench.js";

const unavailable = () => new TransportError("unavailable", "nobody answers");

describe("a node without any version", () => {
  it("trains at once and sends what it learned since its start, with a header that says so", async () => {
    const { repo, node } = newBench();
    const model = new TestModel([1, 2]);
    const worker = node();
    await worker.start(model);
    model.train(-0.5, 0.25);
    expect(await worker.afterStep(model, 1, 10)).toBe(false);
    model.train(-0.5, 0.25);
    expect(await worker.afterStep(model, 2, 30)).toBe(false);
    await settle();
    const [[path, delta] = []] = await deltasIn(repo);
    expect(delta).toEqual([1, -0.5]);
    const { header } = await loadDelta(bytesSource(repo.files.get(path!)!));
    expect(header).toMatchObject({ baseOuterStep: -1, nodeId: "a", localStep: 2 });
    expect(Object.fromEntries(header.extra)).toEqual({
      fingerprint: '{"d_model":8}',
      previous_sha256: "",
      sequence: "1",
      steps: "2",
      tokens: "40",
    });
    await worker.stop(model, 1000);
  });

  it("L-51: waits for an answer at its start only as long as it may, and goes on asking", async () => {
    const { repo, clock, names, node } = newBench();
    repo.fault = unavailable;
    const model = new TestModel([1]);
    const worker = node({ startWaitMs: 5000 });
    let isStarted = false;
    const starting = worker.start(model).then(() => {
      isStarted = true;
    });
    await clock.advance(4900);
    expect(isStarted).toBe(false);
    await clock.advance(100);
    await starting;
    expect(names()).toEqual(["node_start", "node_waiting"]);
    repo.fault = () => undefined;
    await clock.advance(1000);
    expect(names()).toEqual(["node_start", "node_waiting", "node_online"]);
    await worker.stop(model, 0);
  });

  it("waits no longer for an answer or a version once its run is told to end", async () => {
    const { repo, node } = newBench();
    const stop = new AbortController();
    const model = new TestModel([1]);
    const unanswered = node({ startWaitMs: 1e9 });
    repo.fault = unavailable;
    const asking = unanswered.start(model, undefined, stop.signal);
    await settle();
    stop.abort("SIGTERM");
    await asking;
    repo.fault = () => undefined;
    await unanswered.stop(model, 0);

    publish(repo, { outerStep: 1, weights: [5], applied: [], extra: { model_sha256: "0".repeat(64) } });
    const again = new AbortController();
    const worker = node({ firstInstallWaitMs: 1e9 });
    const fetching = worker.start(model, undefined, again.signal);
    await settle();
    again.abort("SIGTERM");
    await fetching;
    expect([...model.weights]).toEqual([1]);
    await worker.stop(model, 0);
  });

  it("ends at once where the repository refuses it for good", async () => {
    const { repo, node } = newBench();
    repo.fault = () => new TransportError("denied", "the token may not read; use another one");
    await expect(node().start(new TestModel([1]))).rejects.toMatchObject({ code: "transport.denied" });
  });
});

describe("a version", () => {
  it("is installed before the first step of a new node", async () => {
    const { repo, node, names } = newBench();
    publish(repo, { outerStep: 3, weights: [5, 6], count: 9, applied: [] });
    const model = new TestModel([1, 2]);
    const worker = node();
    await worker.start(model);
    expect([...model.weights, ...model.count]).toEqual([5, 6, 9]);
    expect(worker.state.installed).toBe(3);
    expect(names()).toContain("global_installed");
    await worker.stop(model, 0);
  });

  it("keeps own deltas that it does not contain, and progress since the last snapshot, each once", async () => {
    const { repo, clock, node } = newBench({ innerSteps: 1 });
    publish(repo, { outerStep: 0, weights: [10], applied: [] });
    const model = new TestModel([0]);
    const worker = node();
    await worker.start(model);
    model.train(1);
    await worker.afterStep(model, 1, 1);
    await settle();
    const [first] = [...repo.files.keys()].filter((path) => path.startsWith("nodes/"));
    model.train(2);
    await worker.afterStep(model, 2, 1);
    await settle();
    expect([...(await deltasIn(repo)).values()]).toEqual([[-1], [-2]]);
    // The master has the first delta, and 100 from others.
    publish(repo, { outerStep: 1, weights: [111], applied: [first!] });
    await clock.advance(1000);
    model.train(4);
    expect(await worker.afterStep(model, 3, 1)).toBe(true);
    expect([...model.weights]).toEqual([111 + 2 + 4]);
    await settle();
    expect(worker.state.pending.map(({ sequence }) => sequence)).toEqual([2, 3]);
    // What is sent next is the progress alone, not the difference to the version.
    expect([...(await deltasIn(repo)).values()].at(-1)).toEqual([-4]);
    model.train(8);
    await worker.afterStep(model, 4, 1);
    await settle();
    expect([...(await deltasIn(repo)).values()].at(-1)).toEqual([-8]);
    await worker.stop(model, 0);
  });

  it("of a master without a ledger is installed after everything was sent", async () => {
    const { repo, clock, node } = newBench({ innerSteps: 100 });
    publish(repo, { outerStep: 0, weights: [10] });
    const model = new TestModel([0]);
    const worker = node();
    await worker.start(model);
    model.train(1);
    await worker.afterStep(model, 1, 1);
    publish(repo, { outerStep: 1, weights: [50] });
    await clock.advance(1000);
    await worker.afterStep(model, 2, 1);
    await settle();
    expect([...(await deltasIn(repo)).values()]).toEqual([[-1]]);
    model.train(3);
    expect(await worker.afterStep(model, 3, 1)).toBe(true);
    expect([...model.weights]).toEqual([53]);
    await worker.stop(model, 0);
  });

  const nan = stateFile([Number.NaN, 1]);
  const refusals = [
    ["with values that are not finite", { file: nan }, "global_fetch_failed", "NaN or infinity"],
    ["with a wrong hash", { extra: { model_sha256: "0".repeat(64) } }, "global_fetch_failed", "SHA-256"],
    ["with a ledger elsewhere", { extra: { ledger_file: "../x.json" } }, "version_refused", "ledger_file"],
  ] as const;
  for (const [title, publication, event, words] of refusals) {
    it(`${title} is refused with a reason, and the weights stay`, async () => {
      const { repo, clock, node, events } = newBench({ firstInstallWaitMs: 0 });
      publish(repo, { outerStep: 1, weights: [5, 6], applied: [], ...publication });
      const model = new TestModel([1, 2]);
      const worker = node();
      const starting = worker.start(model);
      await clock.advance(5000);
      await starting;
      await clock.advance(5000);
      expect([...model.weights]).toEqual([1, 2]);
      const found = events.filter((candidate) => candidate.event === event);
      expect(found[0]?.payload.error).toContain(words);
      if (event === "version_refused") expect(found).toHaveLength(1);
      await worker.stop(model, 0);
    });
  }

  const otherModels = [
    ["fingerprint", { extra: { fingerprint: { d_model: 16 } } }, "version_refused", "d_model"],
    ["shapes", { weights: [1, 2, 3] }, "global_fetch_failed", "shape"],
  ] as const;
  for (const [title, publication, event, words] of otherModels) {
    it(`of another model by its ${title} ends a node that starts, with the difference`, async () => {
      const { repo, node } = newBench();
      publish(repo, { outerStep: 1, weights: [5, 6], applied: [], ...publication });
      const model = new TestModel([1, 2]);
      const refused = await node()
        .start(model)
        .then(
          () => undefined,
          (error: unknown) => error,
        );
      expect(refused).toMatchObject({ code: "node.other_model", exitCode: 6 });
      expect((refused as Error).message).toContain(words);
      expect((refused as Error).message).toContain("another repository");
      expect([...model.weights]).toEqual([1, 2]);
    });

    it(`of another model by its ${title} does not end a node that follows the run`, async () => {
      const { repo, clock, node, events } = newBench();
      publish(repo, { outerStep: 1, weights: [5, 6], applied: [] });
      const model = new TestModel([1, 2]);
      const worker = node();
      await worker.start(model);
      publish(repo, { outerStep: 2, weights: [5, 6], applied: [], ...publication });
      await clock.advance(5000);
      expect(events.some((candidate) => candidate.event === event)).toBe(true);
      expect([...model.weights]).toEqual([5, 6]);
      await worker.stop(model, 0);
    });
  }
});

describe("sending", () => {
  async function trained(fault: (repo: ReturnType<typeof newBench>["repo"]) => void) {
    const bench = newBench({ innerSteps: 1 });
    const model = new TestModel([1]);
    const worker = bench.node();
    await worker.start(model);
    fault(bench.repo);
    model.train(1);
    await worker.afterStep(model, 1, 1);
    await settle();
    return { ...bench, model, worker };
  }

  it("goes on from the new head when somebody else was faster", async () => {
    let conflicts = 2;
    const { repo, clock, worker, model } = await trained((target) => {
      target.fault = (call) => {
        if (call === "commit" && conflicts-- > 0) target.put({ other: String(conflicts) });
        return undefined;
      };
    });
    await clock.advance(1000);
    expect((await deltasIn(repo)).size).toBe(1);
    expect(worker.state.pending[0]?.stage).toBe("sent");
    await worker.stop(model, 0);
  });

  it("gets in between peers that commit all the time, without ever waiting long", async () => {
    let conflicts = 15;
    const { repo, clock, worker, model } = await trained((target) => {
      target.fault = (call) => {
        if (call === "commit" && conflicts-- > 0) target.put({ other: String(conflicts) });
        return undefined;
      };
    });
    await clock.advance(2000);
    expect((await deltasIn(repo)).size).toBe(1);
    expect(worker.state.pending[0]?.stage).toBe("sent");
    await worker.stop(model, 0);
  });

  it("L-21: looks before it commits again when the answer was lost", async () => {
    let commits = 0;
    const { repo, clock, worker, model } = await trained((target) => {
      target.fault = (call) =>
        call === "commit" && commits++ === 0
          ? { after: new TransportError("ambiguous", "the connection broke") }
          : undefined;
    });
    await clock.advance(1000);
    expect(repo.calls.filter((call) => call === "commit")).toHaveLength(1);
    expect(worker.state.pending[0]?.stage).toBe("sent");
    await worker.stop(model, 0);
  });

  it("never holds up training, and what it could not send adds up in the next delta", async () => {
    let isDown = true;
    const { repo, clock, worker, model } = await trained((target) => {
      target.fault = () => (isDown ? unavailable() : undefined);
    });
    for (const step of [2, 3, 4]) {
      model.train(1);
      await worker.afterStep(model, step, 1);
    }
    isDown = false;
    await clock.advance(5000);
    model.train(1);
    await worker.afterStep(model, 5, 1);
    await clock.advance(1000);
    expect([...(await deltasIn(repo)).values()]).toEqual([[-1], [-4]]);
    await worker.stop(model, 0);
  });

  it("reports a refusal once and keeps the delta", async () => {
    const { names, worker, model, clock } = await trained((target) => {
      target.fault = (call) =>
        call === "commit" ? new TransportError("denied", "no right to write") : undefined;
    });
    await clock.advance(2_000_000);
    expect(names().filter((name) => name === "delta_upload_failed")).toHaveLength(1);
    expect(worker.state.pending).toHaveLength(1);
    await worker.stop(model, 0);
  });

  it("L-04 L-05: does not happen for nothing: zero deltas and deltas that are not finite stay here", async () => {
    const { repo, names, node } = newBench({ innerSteps: 1 });
    const model = new TestModel([1, 1]);
    const worker = node();
    await worker.start(model);
    await worker.afterStep(model, 1, 1);
    await settle();
    model.train(Number.NaN);
    await worker.afterStep(model, 2, 1);
    await settle();
    expect((await deltasIn(repo)).size).toBe(0);
    expect(names().filter((name) => name === "delta_dropped")).toHaveLength(2);
    // The next version makes it whole again.
    publish(repo, { outerStep: 0, weights: [3, 4], applied: [] });
    await worker.stop(model, 0);
  });
});

describe("a snapshot that cannot be written", () => {
  it("leaves its progress to the next one", async () => {
    const { repo, node, outbox, names, events } = newBench({ innerSteps: 1 });
    const model = new TestModel([1]);
    let isFull = true;
    const outgoing = {
      ...outbox.outgoing,
      write: async (...call: Parameters<typeof outbox.outgoing.write>) => {
        if (isFull) throw new Error("the disk is full");
        return outbox.outgoing.write(...call);
      },
    };
    const worker = node({ outbox: { ...outbox, outgoing } });
    await worker.start(model);
    model.train(1);
    await worker.afterStep(model, 1, 1);
    await settle();
    expect(names()).toContain("node_state_failed");
    expect(events.find(({ event }) => event === "delta_dropped")?.payload.reason).toBe("not_written");
    isFull = false;
    model.train(2);
    await worker.afterStep(model, 2, 1);
    await settle();
    expect([...(await deltasIn(repo)).values()]).toEqual([[-3]]);
    isFull = true;
    model.train(4);
    await worker.afterStep(model, 3, 1);
    await worker.stop(model, 0);
    expect(events.at(-1)).toMatchObject({ event: "node_stop", payload: { unsent_deltas: 1 } });
  });
});
