import { expect, test } from "vitest";
import { Ahead } from "../../../src/distributed/node/ahead.js";

interface Started {
  readonly item: string;
  readonly signal: AbortSignal;
  readonly finish: (result: string) => void;
  readonly fail: (error: Error) => void;
}

function bench() {
  const started: Started[] = [];
  const work = (item: string, signal: AbortSignal) =>
    new Promise<string>((finish, fail) => {
      started.push({ item, signal, finish, fail });
      signal.addEventListener("abort", () => fail(new Error("aborted")));
    });
  return { started, ahead: new Ahead(work, undefined), items: () => started.map(({ item }) => item) };
}

test("the next item is begun once, and its result is taken when its turn comes", async () => {
  const { started, ahead, items } = bench();
  const first = ahead.take("a", "b");
  expect(items()).toEqual(["a", "b"]);
  started[1]!.finish("B");
  started[0]!.finish("A");
  expect(await first).toBe("A");
  expect(await ahead.take("b", undefined)).toBe("B");
  expect(items()).toEqual(["a", "b"]);
});

test("a failure of the next item is heard of in its turn only", async () => {
  const { started, ahead } = bench();
  const first = ahead.take("a", "b");
  started[1]!.fail(new Error("b is bad"));
  started[0]!.finish("A");
  expect(await first).toBe("A");
  await expect(ahead.take("b", undefined)).rejects.toThrow("b is bad");
});

test("the end gives up what was begun and waits for it", async () => {
  const { started, ahead } = bench();
  const first = ahead.take("a", "b");
  started[0]!.fail(new Error("a is bad"));
  await expect(first).rejects.toThrow("a is bad");
  await ahead.end();
  expect(started[1]!.signal.aborted).toBe(true);
});
