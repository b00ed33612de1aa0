// Everything that happens to a node or a master has an event, and every event is in the catalogue with its keys.

import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";

import { TransportError } from "../../../src/distributed/transports/errors.js";
import { eventCatalogue } from "../../../src/observe/events/catalogue.js";
import { deltaFile, FakeRepository, start } from "../aggregator/repository.js";
import { newBench, publish, TestModel } from "../node/bench.js";
import { f32 } from "../states.js";

type Event = readonly [event: string, payload: Readonly<Record<string, unknown>>];

/** Events or keys that nobody who reads the catalogue knows of. */
function undocumented(events: readonly Event[]): string[] {
  const catalogue: Readonly<Record<string, { readonly keys: object }>> = eventCatalogue;
  return events.flatMap(([event, payload]) => {
    const entry = catalogue[event];
    if (entry === undefined) return [event];
    return Object.keys(payload)
      .filter((key) => !Object.hasOwn(entry.keys, key))
      .map((key) => `${event}.${key}`);
  });
}

it("L-103: a node tells of start, failure, recovery, install, refusal, delta, fate, damage and end", async () => {
  const { repo, clock, node, events } = newBench({ innerSteps: 1 });
  let isDown = true;
  repo.fault = () => (isDown ? new TransportError("unavailable", "gone") : undefined);
  const model = new TestModel([1]);
  const worker = node({ startWaitMs: 0, firstInstallWaitMs: 0 });
  const starting = worker.start(model);
  await clock.advance(0);
  await starting;
  isDown = false;
  await clock.advance(2000);
  let at = 0;
  const step = async (amount: number) => {
    model.train(amount);
    await worker.afterStep(model, ++at, 1);
    await clock.advance(1000);
  };
  await step(1);
  const [path] = [...repo.files.keys()];
  publish(repo, { outerStep: 5, weights: [3], applied: [path!] });
  await clock.advance(1000);
  await step(0);
  publish(repo, { outerStep: 4, weights: [3], applied: [] });
  await clock.advance(1000);
  publish(repo, { outerStep: 6, weights: [Number.NaN], applied: [] });
  await clock.advance(1000);
  publish(repo, { outerStep: 7, weights: [3], applied: [], extra: { fingerprint: { d_model: 9 } } });
  await clock.advance(1000);
  await step(0);
  repo.fault = (call) => (call === "commit" ? new TransportError("denied", "no") : undefined);
  await step(1);
  await worker.stop(model, 0);
  const seen = events.map(({ event, payload }): Event => [event, payload]);
  expect(undocumented(seen)).toEqual([]);
  expect([...new Set(seen.map(([event]) => event))].sort()).toEqual([
    "delta_decided",
    "delta_dropped",
    "delta_upload_failed",
    "delta_upload_queued",
    "delta_uploaded",
    "global_fetch_failed",
    "global_installed",
    "node_online",
    "node_start",
    "node_stop",
    "node_waiting",
    "version_ignored",
    "version_refused",
  ]);
});

it("L-103: a master tells of its first version, a claim, rounds, refusals, waiting and what it found again", async () => {
  const repository = new FakeRepository();
  const weights = [f32("w", 1, 2)];
  const first = await start({ repository, weights });
  const send = async (number: number, ...values: number[]) =>
    repository.write({
      [`nodes/a/delta_${number}.safetensors`]: await deltaFile(
        { nodeId: "a", localStep: number, baseOuterStep: repository.record.outerStep },
        f32("w", ...values),
      ),
      "nodes/a/delta_007.safetensors": "odd",
    });
  const { aggregator, events } = await start({ repository });
  await send(1, Number.NaN, 1);
  await send(2, 1, 1);
  repository.faults = ["lost answer"];
  await aggregator.runUntil({ rounds: 1 });
  const seen: Event[] = [...first.events, ...events];
  expect(undocumented(seen)).toEqual([]);
  expect(new Set(seen.map(([event]) => event))).toEqual(
    new Set([
      "delta_path_skipped",
      "delta_rejected",
      "master_claimed",
      "outer_step",
      "publish_trouble",
      "version_published",
    ]),
  );
});

it("L-103: what the reducers tell in any scripted story is in the catalogue, key by key", () => {
  const folder = fileURLToPath(new URL("../protocol/transcripts/", import.meta.url));
  const told = readdirSync(folder).flatMap((name) =>
    [...readFileSync(join(folder, name), "utf8").matchAll(/^ +emit (\w+) (\{.*\})$/gm)].map(
      ([, event, payload]): Event => [event!, JSON.parse(payload!)],
    ),
  );
  expect(told.length).toBeGreaterThan(50);
  expect(undocumented(told)).toEqual([]);
});
