// The logger: stamps, frozen copies, cadence, isolation of every kind of bad hook, and an orderly end.
import { describe, expect, test, vi } from "vitest";
import { type Hook, MetricLogger } from "../../src/observe/index.js";
import { FakeClock, localTime, recordingSink, runId, startPayload, stepPayload } from "./fixtures.js";

const tick = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 0));

function warnings(sink: ReturnType<typeof recordingSink>): unknown[] {
  return sink.seen.filter(([event]) => event === "warning").map(([, payload]) => payload.code);
}

describe("payloads", () => {
  test("carry elapsed_s, time and run_id, and drop undefined keys", () => {
    const clock = new FakeClock();
    const sink = recordingSink("a");
    const logger = new MetricLogger({ runId, sinks: [sink], ...clock });
    clock.ms = 1500;
    logger.emit("data_epoch", { epoch: 1, step: 7, samples: undefined });
    const added = { elapsed_s: 1.5, time: localTime.toISOString(), run_id: runId };
    expect(sink.seen).toEqual([["data_epoch", { epoch: 1, step: 7, ...added }]]);
    expect(Object.keys(sink.seen[0]?.[1] ?? {})).toEqual(["epoch", "step", "elapsed_s", "time", "run_id"]);
  });

  test("keep the emitter's own elapsed_s", () => {
    const sink = recordingSink("a");
    new MetricLogger({ runId, sinks: [sink] }).emit("train_end", { steps: 4, elapsed_s: 12, loss: null });
    expect(sink.seen[0]?.[1]).toMatchObject({ elapsed_s: 12, loss: null });
  });

  test("are each sink's own, frozen to the last level", () => {
    const [a, b] = [recordingSink("a"), recordingSink("b")];
    const logger = new MetricLogger({ runId, sinks: [a, b] });
    const details = { list: [1, { deep: true }] };
    logger.warning("code", "text", details);
    details.list.push(2);
    const [seenA, seenB] = [a.seen[0]?.[1], b.seen[0]?.[1]] as unknown as { details: { list: unknown[] } }[];
    expect(seenA).toEqual(seenB);
    expect(seenA?.details.list).toEqual([1, { deep: true }]);
    expect(seenA).not.toBe(seenB);
    expect(seenA?.details.list[1]).not.toBe(seenB?.details.list[1]);
    expect(Object.isFrozen(seenA) && Object.isFrozen(seenA?.details.list[1])).toBe(true);
    expect(() => seenA?.details.list.push(3)).toThrow(TypeError);
  });

  test("turn everything odd into plain data", () => {
    const sink = recordingSink("a");
    const circular: Record<string, unknown> = {};
    circular.self = circular;
    new MetricLogger({ runId, sinks: [sink] }).emitCustom("odd", {
      big: 12n,
      huge: 2n ** 70n,
      date: new Date(0),
      error: new RangeError("no"),
      map: new Map([["k", new Float32Array([1, 2])]]),
      ["__proto__"]: "kept",
      circular,
    });
    const payload = sink.seen[0]?.[1];
    expect(payload).toMatchObject({
      big: 12,
      huge: "1180591620717411303424",
      date: "1970-01-01T00:00:00.000Z",
      error: "RangeError: no",
      map: { k: [1, 2] },
    });
    expect(Object.keys(payload ?? {})).toContain("__proto__");
    expect(JSON.stringify(payload)).toContain("[too deep]");
  });

  test("whose getters throw become a warning", () => {
    const sink = recordingSink("a");
    const payload = Object.defineProperty({}, "x", {
      enumerable: true,
      get() {
        throw new Error("boom");
      },
    });
    new MetricLogger({ runId, sinks: [sink] }).emitCustom("odd", payload as Record<string, unknown>);
    expect(sink.seen.map(([event, { code }]) => [event, code])).toEqual([["warning", "observe.bad_payload"]]);
  });
});

describe("cadence", () => {
  function run(logger: MetricLogger, from: number, to: number, target: number, isComplete = true): void {
    logger.emit("train_start", startPayload(from, target));
    for (let step = from + 1; step <= to; step++) logger.emit("train_step", stepPayload(step));
    if (isComplete) logger.emit("train_end", { steps: to, elapsed_s: 1, loss: 2 });
  }
  const steps = (...numbers: number[]): string[] => numbers.map((step) => `train_step:${step}`);

  test("is per sink and always has the first and the last step", () => {
    const [every, third] = [recordingSink("every"), recordingSink("third", 3)];
    run(new MetricLogger({ runId, sinks: [every, third] }), 0, 8, 8);
    expect(every.names()).toEqual(["train_start", ...steps(1, 2, 3, 4, 5, 6, 7, 8), "train_end"]);
    expect(third.names()).toEqual(["train_start", ...steps(1, 3, 6, 8), "train_end"]);
  });

  test("counts absolute steps after a resume", () => {
    const sink = recordingSink("s", 10);
    run(new MetricLogger({ runId, sinks: [sink] }), 904, 925, 925);
    expect(sink.names()).toEqual(["train_start", ...steps(905, 910, 920, 925), "train_end"]);
  });

  test("gives the last step before train_end when the run stops early", () => {
    const sink = recordingSink("s", 10);
    run(new MetricLogger({ runId, sinks: [sink] }), 0, 14, 100);
    expect(sink.names()).toEqual(["train_start", ...steps(1, 10, 14), "train_end"]);
  });

  test("gives the last step on close when training failed", async () => {
    const sink = recordingSink("s", 10);
    const logger = new MetricLogger({ runId, sinks: [sink] });
    run(logger, 0, 14, 100, false);
    await logger.close();
    expect(sink.names()).toEqual(["train_start", ...steps(1, 10, 14)]);
  });
});

describe("hooks", () => {
  test("are functions or objects, see every step, and narrow the payload by the event's name", async () => {
    const losses: number[] = [];
    const seen: string[] = [];
    const onStep: Hook = (event, payload) => {
      if (event === "train_step") losses.push(payload.loss);
    };
    class Collector {
      isClosed = false;
      onEvent(event: string, payload: Readonly<Record<string, unknown>>): void {
        seen.push(`${event}:${payload.step}`);
      }
      close(): void {
        this.isClosed = true;
      }
    }
    const collector = new Collector();
    const logger = new MetricLogger({ runId, hooks: [onStep, collector] });
    logger.emit("train_step", stepPayload(1, { loss: 3 }));
    logger.emit("train_step", stepPayload(2, { loss: 2 }));
    logger.emitCustom("delta_uploaded", { step: 2 });
    await logger.close();
    expect(losses).toEqual([3, 2]);
    expect(seen).toEqual(["train_step:1", "train_step:2", "delta_uploaded:2"]);
    expect(collector.isClosed).toBe(true);
  });

  test("that throw or reject give one warning each and stop nothing", async () => {
    const sink = recordingSink("log");
    let calls = 0;
    const throwing = function throwing(): void {
      calls += 1;
      throw new Error("broken");
    };
    const rejecting = async function rejecting(): Promise<void> {
      calls += 1;
      throw new Error("late");
    };
    const logger = new MetricLogger({ runId, sinks: [sink], hooks: [throwing, rejecting] });
    for (let step = 1; step <= 3; step++) logger.emit("train_step", stepPayload(step));
    await logger.close();
    const messages = sink.seen.filter(([event]) => event === "warning").map(([, { message }]) => message);
    const text = "failed and was isolated; training goes on, later failures of it are not reported";
    expect(messages).toEqual([`hook throwing ${text}: broken`, `hook rejecting ${text}: late`]);
    expect(sink.names().filter((name) => name.startsWith("train_step"))).toHaveLength(3);
    // Each hook got three steps; each also got the other's warning, never its own.
    expect(calls).toBe(3 + 1 + 3 + 1);
  });

  test("L-104: that are slow keep order, never hold up the run, and lose the oldest beyond the bound", async () => {
    const sink = recordingSink("log");
    const got: number[] = [];
    let open = (): void => {};
    const gate = new Promise<void>((resolve) => {
      open = resolve;
    });
    const logger = new MetricLogger({ runId, sinks: [sink], queueLimit: 3 });
    logger.addHook(
      async (event, payload) => {
        await gate;
        if (event === "train_step") got.push(payload.step);
      },
      { name: "slow hook" },
    );
    for (let step = 1; step <= 10; step++) logger.emit("train_step", stepPayload(step));
    expect(sink.names().filter((name) => name.startsWith("train_step"))).toHaveLength(10);
    expect(got).toEqual([]);
    open();
    await logger.close();
    expect(got).toEqual([1, 8, 9, 10]);
    expect(warnings(sink)).toEqual(["observe.sink_dropped", "observe.sink_lost"]);
    expect(sink.seen.at(-1)?.[1].message).toBe("slow hook lost 6 records because it was too slow");
  });

  test("that never finish are abandoned on close", async () => {
    const sink = recordingSink("log");
    const never: Hook = () => new Promise(() => {});
    const logger = new MetricLogger({ runId, sinks: [sink], hooks: [never], closeTimeoutMs: 10 });
    logger.emit("train_step", stepPayload(1));
    await logger.close();
    expect(warnings(sink)).toEqual(["observe.sink_timeout"]);
    expect(sink.isClosed).toBe(true);
  });

  test("L-104: may emit: every sink sees the cause before the answer", () => {
    const [before, after] = [recordingSink("before"), recordingSink("after")];
    const logger: MetricLogger = new MetricLogger({ runId, sinks: [before] });
    logger.addHook((event, _payload) => {
      if (event === "train_step") logger.emitCustom("answer", {});
    });
    logger.addSink(after);
    logger.emit("train_step", stepPayload(1));
    expect(before.names()).toEqual(["train_step:1", "answer"]);
    expect(after.names()).toEqual(["train_step:1", "answer"]);
  });

  test("that answer their own events for ever are stopped with one warning", () => {
    const sink = recordingSink("log");
    const logger: MetricLogger = new MetricLogger({ runId, sinks: [sink] });
    logger.addHook(() => logger.emitCustom("echo", {}));
    logger.emit("train_step", stepPayload(1));
    logger.emit("train_step", stepPayload(2));
    expect(warnings(sink)).toEqual(["observe.event_loop"]);
    expect(sink.names().filter((name) => name === "echo")).toHaveLength(8);
  });

  test("that answer after an await for ever leave room for timers and end on close", async () => {
    const logger: MetricLogger = new MetricLogger({ runId });
    let calls = 0;
    logger.addHook(async () => {
      calls += 1;
      await null;
      logger.emitCustom("echo", {});
    });
    logger.emit("train_step", stepPayload(1));
    await tick();
    await logger.close();
    const atClose = calls;
    await tick();
    expect(calls).toBe(atClose);
    expect(calls).toBeGreaterThan(1);
  });

  test("taken out get nothing more and are closed", async () => {
    const sink = recordingSink("s");
    const logger = new MetricLogger({ runId });
    const remove = logger.addSink(sink);
    logger.emit("train_step", stepPayload(1));
    await remove();
    logger.emit("train_step", stepPayload(2));
    expect(sink.names()).toEqual(["train_step:1"]);
    expect(sink.isClosed).toBe(true);
  });
});

test("close is done once, newest sink first, shows failures of closing, and later events are ignored", async () => {
  const order: string[] = [];
  const sink = recordingSink("log");
  const closing = (name: string, error?: Error): { name: string; write(): void; close(): void } => ({
    name,
    write: vi.fn(),
    close() {
      order.push(name);
      if (error) throw error;
    },
  });
  const logger = new MetricLogger({
    runId,
    sinks: [sink, closing("file", new Error("disk full")), closing("last")],
  });
  await Promise.all([logger.close(), logger.close()]);
  logger.info("too late");
  expect(order).toEqual(["last", "file"]);
  expect(sink.seen.map(([, { message }]) => message)).toEqual([
    "file failed and was isolated; training goes on, later failures of it are not reported: disk full",
  ]);
});
