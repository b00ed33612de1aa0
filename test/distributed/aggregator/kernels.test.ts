// The aggregator on the kernels in WebAssembly, which a disk brings along, against the portable ones: what is published
// is the same bit for bit, and both the inspection and the outer step are done by them.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { diskSurroundings } from "../../../src/distributed/node/aggregator-disk.node.js";
import { type OuterKernels, portableKernels } from "../../../src/distributed/wire/index.js";
import { loadOuterKernels } from "../../../src/distributed/wire/index.node.js";
import { f32 } from "../states.js";
import { deltaFile, FakeClock, FakeRepository, start } from "./repository.js";

const folders: string[] = [];
afterAll(() => {
  for (const folder of folders) rmSync(folder, { recursive: true, force: true });
});
const diskFolder = () => folders[folders.push(mkdtempSync(join(tmpdir(), "kernels-"))) - 1]!;

/** More than a piece, and not a multiple of anything. */
const LENGTH = 300_007;

function tensors(seed: number, size: number) {
  const data = Float32Array.from({ length: LENGTH }, (_, i) => Math.sin(i * 0.37 + seed) * size);
  return [f32("a", seed, -0, 1e-42), { name: "b", dtype: "F32" as const, shape: [LENGTH], data }];
}

/** All files after two rounds of three nodes' deltas. */
async function published(kernels: OuterKernels, merge: "tokens" | "python") {
  const repository = new FakeRepository();
  const surroundings = {
    ...(await diskSurroundings(diskFolder(), new FakeClock())),
    dateMs: () => Date.UTC(2026, 0, 1),
    kernels,
  };
  const { aggregator } = await start({
    repository,
    weights: tensors(0, 1),
    surroundings,
    settings: { merge, clipFactor: 1.2, quorum: 3 },
  });
  for (let round = 1; round <= 2; round++) {
    for (const [i, nodeId] of ["x", "y", "z"].entries()) {
      const header = { nodeId, localStep: round, baseOuterStep: round - 1 };
      const bytes = await deltaFile(header, ...tensors(3 * round + i, 0.01 * (i + 1)));
      repository.write({ [`nodes/${nodeId}/delta_${round}.safetensors`]: bytes });
    }
    await aggregator.runUntil({ rounds: 1 });
  }
  expect(aggregator.outerStep).toBe(2);
  return new Map([...repository.files].map(([path, bytes]) => [path, Buffer.from(bytes).toString("base64")]));
}

/** Says which loops were used. */
function counted(kernels: OuterKernels): { readonly kernels: OuterKernels; readonly used: Set<string> } {
  const used = new Set<string>();
  const proxy = new Proxy(kernels, {
    get: (target, name) => {
      const value: unknown = Reflect.get(target, name, target);
      if (typeof value !== "function") return value;
      return (...args: unknown[]) => {
        used.add(String(name));
        return Reflect.apply(value, target, args) as unknown;
      };
    },
  });
  return { kernels: proxy, used };
}

test.each(["tokens", "python"] as const)("merge: %s gives the same repository", async (merge) => {
  const { kernels, used } = counted(await loadOuterKernels());
  const fast = await published(kernels, merge);
  const plain = await published(portableKernels, merge);
  expect([...fast.keys()].sort()).toEqual([...plain.keys()].sort());
  expect([...fast].filter(([path, bytes]) => bytes !== plain.get(path)).map(([path]) => path)).toEqual([]);
  const wanted = ["addSquares", merge === "python" ? "average" : "addWeighted", "advance", "subtractScaled"];
  for (const name of wanted) expect(used).toContain(name);
});

test("a disk brings them along", async () => {
  expect((await diskSurroundings(diskFolder())).kernels).toBe(await loadOuterKernels());
});
