// When commits were made, as a hub's history tells it: page by page, no further back than asked.

import { describe, expect, test } from "vitest";
import { HubTransport } from "../../../src/distributed/index.js";
import { hasCommitLog } from "../../../src/distributed/transports/commit-log.js";
import { FakeRepository } from "../aggregator/repository.js";

const ENDPOINT = "http://hub.test";
const minute = 60_000;
const at = (minutes: number) => ({ id: "c", title: "t", date: new Date(minutes * minute).toISOString() });

/** Pages by their number in the address; each links to the next. */
function hubOf(pages: readonly unknown[]) {
  const asked: string[] = [];
  const fetch = async (input: string | URL | Request) => {
    const url = new URL(String(input instanceof Request ? input.url : input));
    asked.push(`${url.pathname}${url.search}`);
    const page = Number(url.searchParams.get("page") ?? 0);
    const next = `<${ENDPOINT}${url.pathname}?page=${page + 1}>; rel="next"`;
    const headers: Record<string, string> = page + 1 < pages.length ? { Link: next } : {};
    return Response.json(pages[page], { headers });
  };
  return { asked, transport: new HubTransport({ endpoint: ENDPOINT, repo: "lab/run", fetch }) };
}

describe("times of commits", () => {
  test("stop at the first page with one that is too old", async () => {
    const { asked, transport } = hubOf([[at(60), at(50)], [at(40), at(20)], [at(10)]]);
    expect(await transport.commitTimes({ sinceMs: 30 * minute, limit: 100 })).toEqual(
      [60, 50, 40].map((minutes) => minutes * minute),
    );
    expect(asked).toEqual([
      "/api/models/lab/run/commits/main?limit=100",
      "/api/models/lab/run/commits/main?page=1",
    ]);
  });

  test("are no more than asked for, and end with the history", async () => {
    const { asked, transport } = hubOf([[at(60), at(50)], [at(40)]]);
    expect((await transport.commitTimes({ sinceMs: 0, limit: 2 })).length).toBe(2);
    expect(asked.length).toBe(1);
    expect((await transport.commitTimes({ sinceMs: 0, limit: 100 })).length).toBe(3);
  });

  test("are refused where they are none", async () => {
    for (const page of [{}, [{ date: "yesterday" }], [null]])
      await expect(hubOf([page]).transport.commitTimes({ sinceMs: 0, limit: 1 })).rejects.toMatchObject({
        code: "transport.corrupt",
      });
  });

  test("are an ability that not every repository has", () => {
    expect(hasCommitLog(hubOf([]).transport)).toBe(true);
    expect(hasCommitLog(new FakeRepository())).toBe(false);
  });
});
