// Trouble on demand: what each fault does to the repository and what the caller gets to see.

import { describe, expect, test } from "vitest";
import type { Transport } from "../../../src/distributed/transports/contract.js";
import { listedFaults, seededFaults } from "../../../src/distributed/transports/fault-plans.js";
import {
  type Fault,
  type FaultCall,
  type FaultKind,
  type FaultMethod,
  type FaultOptions,
  isFaultOf,
  withFaults,
} from "../../../src/distributed/transports/faults.js";
import { MemoryRepository, MemoryTransport } from "../../../src/distributed/transports/memory.js";
import { put } from "./content.js";
import { describeTransport, problemOf } from "./contract-suite.js";

const METHODS: readonly FaultMethod[] = ["create", "head", "list", "read", "open", "part", "commit"];
const KINDS: readonly FaultKind[] = [
  "unavailable",
  "throttled",
  "lost_response",
  "conflict",
  "ambiguous_committed",
  "ambiguous_not_committed",
  "truncated",
  "stale_head",
];

describeTransport("memory behind a line that is only slow", async () => {
  const repository = new MemoryRepository();
  const clock = { now: () => 0, sleep: async () => undefined };
  const plan = () => ({ delayMs: 5, answerDelayMs: 5 });
  return { connect: () => withFaults(new MemoryTransport(repository), plan, { clock }) };
});

/** A repository with one file, and a connector to it on which `faults` happen to `method`, one a call. */
async function start(
  method: FaultMethod,
  faults: readonly (Fault | FaultKind | undefined)[],
  options: FaultOptions = {},
) {
  const inner = new MemoryTransport(new MemoryRepository());
  await inner.create();
  const parent = await inner.head();
  const head = await inner.commit({ parent, message: "a file", operations: [put("a.txt", "text")] });
  return { inner, head, faulty: withFaults(inner, listedFaults(method, faults), options) };
}

const commit = (transport: Transport, parent: string, path = "b.txt") =>
  transport.commit({ parent, message: "one", operations: [put(path, "b")] });

/** A call of each method that works without faults. */
const CALLS: Readonly<Record<FaultMethod, (transport: Transport, head: string) => Promise<unknown>>> = {
  create: (transport) => transport.create(),
  head: (transport) => transport.head(),
  list: (transport, head) => transport.list(head, ""),
  read: (transport, head) => transport.read(head, "a.txt", 10),
  open: (transport, head) => transport.open(head, "a.txt"),
  part: async (transport, head) => (await transport.open(head, "a.txt")).read(0, 2),
  commit: (transport, head) => commit(transport, head),
};

describe("each method", () => {
  test.each(METHODS)("%s: an outage, a limit and a lost answer, then none", async (method) => {
    const faults = ["unavailable", { kind: "throttled", retryAfterMs: 70 }, "lost_response"] as const;
    const { inner, head, faulty } = await start(method, faults);
    const call = () => CALLS[method](faulty, head);
    expect(await problemOf(call())).toBe("unavailable");
    await expect(call()).rejects.toMatchObject({ problem: "throttled", retryAfterMs: 70, isTransient: true });
    expect(await inner.head()).toBe(head);
    expect(await problemOf(call())).toBe(method === "commit" ? "ambiguous" : "unavailable");
    // The answer got lost, the commit did not.
    expect((await inner.head()) === head).toBe(method !== "commit");
    expect(await problemOf(call())).toEqual(
      method === "commit" ? "conflict" : { fulfilled: expect.anything() },
    );
  });

  test.each(METHODS)("%s: a kind that cannot happen to it is left out, and not reported", async (method) => {
    const foreign = KINDS.filter((kind) => !isFaultOf(method, kind));
    expect(foreign.length).toBeGreaterThan(0);
    const seen: unknown[] = [];
    const { head, faulty } = await start(method, foreign, { onFault: (call) => seen.push(call) });
    for (const _ of foreign) {
      if (method !== "commit") expect(await problemOf(CALLS[method](faulty, head))).not.toBeTypeOf("string");
      else await commit(faulty, await faulty.head());
    }
    expect(seen).toEqual([]);
  });
});

test("a planned conflict makes nothing, though the parent is the head", async () => {
  const { inner, head, faulty } = await start("commit", ["conflict"]);
  expect(await problemOf(commit(faulty, head))).toBe("conflict");
  expect(await inner.head()).toBe(head);
  expect(await commit(faulty, head)).toBe(await inner.head());
});

test("both ambiguous answers are the same, and only the head tells them apart", async () => {
  const { inner, head, faulty } = await start("commit", ["ambiguous_not_committed", "ambiguous_committed"]);
  const errors: unknown[] = [];
  for (const isMade of [false, true]) {
    await commit(faulty, head).catch((error: unknown) => errors.push(error));
    expect((await inner.head()) !== head).toBe(isMade);
  }
  expect(errors).toMatchObject([{ problem: "ambiguous" }, { problem: "ambiguous" }]);
  expect(String(errors[0])).toBe(String(errors[1]));
});

test("a real conflict stays one where the plan says committed", async () => {
  const { inner, head, faulty } = await start("commit", ["ambiguous_committed"]);
  await commit(inner, head, "first.txt");
  expect(await problemOf(commit(faulty, head))).toBe("conflict");
});

test("cut answers are corrupt; a missing file has none to cut", async () => {
  const read = await start("read", ["truncated", "truncated"]);
  expect(await problemOf(read.faulty.read(read.head, "a.txt", 10))).toBe("corrupt");
  expect(await read.faulty.read(read.head, "none.txt", 10)).toBeUndefined();
  const part = await start("part", [undefined, "truncated"]);
  const source = await part.faulty.open(part.head, "a.txt");
  expect(new TextDecoder().decode(await source.read(1, 3))).toBe("ext");
  expect(await problemOf(source.read(1, 3))).toBe("corrupt");
  expect(new TextDecoder().decode(await source.read(1, 3))).toBe("ext");
});

test("a file whose opening fails is closed", async () => {
  for (const kind of ["truncated", "lost_response"] as const) {
    const { inner, head } = await start("open", []);
    const open: string[] = [];
    const counting: Transport = {
      title: inner.title,
      key: inner.key,
      create: (options) => inner.create(options),
      head: (options) => inner.head(options),
      list: (revision, prefix, options) => inner.list(revision, prefix, options),
      read: (revision, path, maxBytes, options) => inner.read(revision, path, maxBytes, options),
      commit: (request, options) => inner.commit(request, options),
      close: () => inner.close(),
      open: async (revision, path, options) => {
        const source = await inner.open(revision, path, options);
        open.push(path);
        const close = async () => {
          open.pop();
          await source.close?.();
        };
        return { name: path, sizeBytes: source.sizeBytes, read: (at, size) => source.read(at, size), close };
      },
    };
    const faulty = withFaults(counting, listedFaults("open", [kind]));
    await expect(faulty.open(head, "a.txt")).rejects.toThrow();
    expect([kind, open]).toEqual([kind, []]);
    const source = await faulty.open(head, "a.txt");
    expect(open).toEqual(["a.txt"]);
    await source.close?.();
    expect(open).toEqual([]);
  }
});

test("a stale head is the one seen before, and the newest where only one was seen", async () => {
  const stale = Array.from({ length: 4 }, () => "stale_head" as const);
  const { inner, head, faulty } = await start("head", stale);
  expect(await faulty.head()).toBe(head);
  const next = await commit(inner, head);
  // Only one was seen so far: the newest is asked for.
  expect(await faulty.head()).toBe(next);
  expect(await faulty.head()).toBe(head);
  const own = await commit(faulty, next, "c.txt");
  expect(await faulty.head()).toBe(next);
  expect(await faulty.head()).toBe(own);
});

test("delays come before the call and before the answer, and are told of", async () => {
  const log: string[] = [];
  const clock = {
    now: () => 0,
    sleep: async (ms: number) => {
      log.push(`sleep ${ms}`);
    },
  };
  const onFault = (call: FaultCall, fault: Fault) =>
    log.push(`${call.method} ${call.index} ${fault.kind ?? "late"}`);
  const faults = [
    { delayMs: 3, answerDelayMs: 4 },
    undefined,
    { kind: "lost_response", delayMs: 5 },
  ] as const;
  const { inner, head, faulty } = await start("commit", faults, { clock, onFault });
  const made = await commit(faulty, head);
  log.push("made");
  const next = await commit(faulty, made, "c.txt");
  log.push("made");
  expect(await problemOf(commit(faulty, next, "d.txt"))).toBe("ambiguous");
  expect(log).toEqual([
    "sleep 3",
    "commit 0 late",
    "sleep 4",
    "made",
    "made",
    "sleep 5",
    "commit 2 lost_response",
  ]);
  expect(await inner.head()).not.toBe(next);
});

test("an abort ends a delay with the reason: before the call nothing is done, after it all is", async () => {
  for (const when of ["delayMs", "answerDelayMs"] as const) {
    const stop = new AbortController();
    const reason = new Error("enough");
    const clock = { now: () => 0, sleep: async () => stop.abort(reason) };
    const { inner, head, faulty } = await start("commit", [{ [when]: 10 }], { clock });
    const request = { parent: head, message: "one", operations: [put("b.txt", "b")] };
    expect(await problemOf(faulty.commit(request, { signal: stop.signal }))).toBe(reason);
    expect((await inner.head()) === head).toBe(when === "delayMs");
  }
});

describe("plans from a seed", () => {
  const all = (plan: (call: FaultCall) => Fault | undefined, method: FaultMethod, calls = 2000) =>
    Array.from({ length: calls }, (_, index) => plan({ method, index }));
  const half = Object.fromEntries(KINDS.map((kind) => [kind, 0.5]));

  test("the same seed and stream give the same faults in any order of asking; others give others", () => {
    const settings = { seed: 7, stream: 1, probabilities: half, delayProbability: 0.5 };
    const plan = seededFaults(settings);
    const forward = all(plan, "commit", 50);
    const backward = Array.from({ length: 50 }, (_, i) =>
      plan({ method: "commit", index: 49 - i }),
    ).reverse();
    expect(backward).toEqual(forward);
    expect(all(seededFaults(settings), "commit", 50)).toEqual(forward);
    for (const other of [{ stream: 2 }, { seed: 8 }, { seed: -7 }, { seed: 7 + 2 ** 32 }])
      expect(all(seededFaults({ ...settings, ...other }), "commit", 50)).not.toEqual(forward);
  });

  test("kinds happen as often as asked, and only where they can", () => {
    for (const method of METHODS) {
      const seen = all(seededFaults({ seed: 1, probabilities: half }), method).map((fault) => fault?.kind);
      const known = new Set(seen.filter((kind) => kind !== undefined));
      expect([method, [...known].sort()]).toEqual([method, KINDS.filter((k) => isFaultOf(method, k)).sort()]);
    }
    const one = all(seededFaults({ seed: 3, probabilities: { conflict: 0.1 } }), "commit");
    const share = one.filter((fault) => fault?.kind === "conflict").length / one.length;
    expect(share).toBeGreaterThan(0.07);
    expect(share).toBeLessThan(0.13);
    expect(all(seededFaults({ seed: 3, probabilities: { conflict: 1 } }), "commit", 9)).toEqual(
      Array.from({ length: 9 }, () => ({ kind: "conflict" })),
    );
    expect(all(seededFaults({ seed: 3 }), "commit", 99)).toEqual(Array.from({ length: 99 }, () => undefined));
  });

  test("delays stay below their bound, on both sides of the call; a limit says when to come back", () => {
    const late = all(seededFaults({ seed: 5, delayProbability: 1, maxDelayMs: 40 }), "read", 400);
    const before = late.flatMap((fault) => fault?.delayMs ?? []);
    const after = late.flatMap((fault) => fault?.answerDelayMs ?? []);
    expect(before.length + after.length).toBe(400);
    expect(Math.min(before.length, after.length)).toBeGreaterThan(150);
    const times = [...before, ...after];
    expect([Math.min(...times) >= 0, Math.max(...times) <= 40, Math.max(...times) > 35]).toEqual([
      true,
      true,
      true,
    ]);
    const limited = seededFaults({ seed: 5, probabilities: { throttled: 1 }, retryAfterMs: 9 });
    expect(limited({ method: "list", index: 0 })).toEqual({ kind: "throttled", retryAfterMs: 9 });
  });
});

test("a written plan counts the calls of its method only, and ends", () => {
  const plan = listedFaults("read", ["truncated", undefined, { delayMs: 5 }]);
  const call = (method: FaultMethod) => plan({ method, index: 0 });
  expect(call("read")).toEqual({ kind: "truncated" });
  expect(call("commit")).toBeUndefined();
  expect([call("read"), call("read"), call("read")]).toEqual([undefined, { delayMs: 5 }, undefined]);
});
