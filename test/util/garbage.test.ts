// Collections asked for by many threads at once, as by several runs in one process: none may fail.

import { Worker } from "node:worker_threads";
import { expect, test } from "vitest";

test("threads that collect at the same moment do not disturb one another", async () => {
  const source = JSON.stringify(new URL("../../src/util/garbage.node.ts", import.meta.url).href);
  const code = `import("tsx/esm/api").then(({ register }) => { register(); return import(${source}); })
    .then(({ collectGarbage }) => { for (let i = 0; i < 50; i++) collectGarbage(); })`;
  const ended = Array.from({ length: 6 }, () => {
    const worker = new Worker(code, { eval: true });
    return new Promise<string>((resolve) => {
      worker.on("error", (error) => resolve(String(error)));
      worker.on("exit", (exit) => resolve(`exit ${exit}`));
    });
  });
  expect(await Promise.all(ended)).toEqual(new Array(6).fill("exit 0"));
});
