// What a node makes of a repository that says no, and what of the answer it passes on.

import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, it, onTestFinished } from "vitest";

import { backoffMs } from "../../../src/distributed/transports/backoff.js";
import { TransportError, type TransportProblem } from "../../../src/distributed/transports/errors.js";
import { HubTransport } from "../../../src/distributed/transports/hub.js";
import { errorFromNetwork } from "../../../src/distributed/transports/hub-errors.js";
import { newBench, publish, TestModel } from "../node/bench.js";

/** A node whose commits fail with `error`; the virtual times of its tries. */
async function commitTimes(error: Error, forMs: number) {
  const { repo, clock, node, events } = newBench({ innerSteps: 1 });
  const tries: number[] = [];
  const model = new TestModel([1]);
  const worker = node();
  await worker.start(model);
  repo.fault = (call) => {
    if (call !== "commit") return undefined;
    tries.push(clock.now());
    throw error;
  };
  model.train(1);
  await worker.afterStep(model, 1, 1);
  await clock.advance(forMs);
  const times = [...tries];
  const stopping = worker.stop(model, 0);
  await clock.advance(0);
  await stopping;
  return { times, events };
}

it.each<TransportProblem>(["denied", "not_found", "invalid"])(
  "L-57: %s is not tried again within minutes, and is told at once",
  async (problem) => {
    const error = new TransportError(problem, "no, and this is what to do");
    const { times, events } = await commitTimes(error, 300_000);
    expect(times).toHaveLength(1);
    const told = events.filter(({ event }) => event === "delta_upload_failed");
    expect(told).toMatchObject([{ payload: { error: error.message, is_permanent: true } }]);
  },
);

it("L-57: a mistake of ours in the middle of a request is one failure, not 31 seconds of tries", async () => {
  const { times, events } = await commitTimes(new TypeError("x is undefined"), 300_000);
  expect(times).toHaveLength(1);
  expect(events.at(-2)).toMatchObject({ event: "delta_upload_failed", payload: { is_permanent: true } });
});

it("L-57 L-58: what may pass is tried again, no sooner than the server asks, and later each time", async () => {
  const asked = await commitTimes(new TransportError("throttled", "later", { retryAfterMs: 7000 }), 8000);
  expect(asked.times).toEqual([0, 7000]);
  const silent = await commitTimes(new TransportError("unavailable", "nobody answers"), 300);
  // Three quarters of 100 and of 200 ms: the bench's random number is one half.
  expect(silent.times).toEqual([0, 75, 225]);
});

it("L-58: waits differ from node to node, double, and have a longest one", () => {
  const settings = { initialMs: 100, maxMs: 1500 };
  const waits = (random: number) => [1, 2, 3, 4, 5, 60].map((n) => backoffMs(n, settings, () => random));
  expect(waits(0)).toEqual([50, 100, 200, 400, 750, 750]);
  expect(waits(0.5)).toEqual([75, 150, 300, 600, 1125, 1125]);
  expect(backoffMs(1, settings, () => 0.5, 9000)).toBe(9000);
});

it("L-68: what a server says is passed on without tokens, passwords and signatures", async () => {
  const said =
    "hf_AbC123 may not read https://u5er:pa55@store.example/x?X-Amz-Signature=5ec4e7&X-Amz-Credential=AKIA " +
    "(Authorization: Bearer abc.def-5ec4e7)";
  const server = createServer((request, response) => {
    request.resume();
    response.writeHead(403, { "Content-Type": "application/json" }).end(JSON.stringify({ error: said }));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => void server.close());
  const endpoint = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const hub = new HubTransport({ endpoint, repo: "lab/run" });
  const error = await hub.head().catch((thrown: unknown) => thrown);
  await hub.close();
  const { message } = error as TransportError;
  expect(message).toContain("may not read https://…@store.example/x?…");
  expect(message).not.toMatch(/AbC123|u5er|pa55|5ec4e7|AKIA|abc\.def/);
  const broken = errorFromNetwork(new Error(`cannot reach ${said}`), { doing: "reading" });
  expect(broken.message).toContain("cannot reach hf_…");
  expect(broken.message).not.toMatch(/AbC123|u5er|pa55|5ec4e7|AKIA|abc\.def/);
});

it("L-75: a node that looks and finds nothing new makes one request each time, and downloads nothing", async () => {
  const { repo, clock, node } = newBench({ pollIntervalMs: 1000 });
  publish(repo, { outerStep: 1, weights: [1], applied: [] });
  const model = new TestModel([1]);
  const worker = node();
  await worker.start(model);
  repo.calls.length = 0;
  await clock.advance(3000);
  expect(repo.calls).toEqual(["head", "head", "head"]);
  await worker.stop(model, 0);
});
