// Peers that do not behave: they write deltas of their own making, with headers that are in order.

import type { Transport } from "../transports/contract.js";
import { TransportError } from "../transports/errors.js";
import { deltaPath, writeDelta } from "../wire/index.js";
import type { FaultName } from "./faults.js";
import { MemorySink } from "./memory-sink.js";
import type { SimulatedProcess } from "./process.js";
import { RandomStream } from "./random.js";
import { DRIFT, STEPS } from "./toy-model.js";
import { boot, count, type World } from "./world.js";

type Recipe = (random: RandomStream, newest: number) => { readonly base: number; readonly value: number };

const RECIPES: Partial<Record<FaultName, Recipe>> = {
  "nan-peer": (random, newest) => ({
    base: newest,
    value: random.pick([Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY]),
  }),
  "huge-peer": (random, newest) => ({ base: newest, value: random.pick([1000, -1000, 3e38]) }),
  "stale-peer": (random, newest) => ({ base: random.whole(-1, newest), value: random.between(-0.01, 0.01) }),
};

/** One for each of the faults that ask for it. They go on until the faults end; returns how many still do. */
export function startPeers(world: World): () => number {
  let alive = 0;
  for (const [fault, recipe] of Object.entries(RECIPES)) {
    if (!world.faults.has(fault as FaultName)) continue;
    alive++;
    void live(world, fault as FaultName, recipe)
      .catch((error: unknown) => world.violate("live", `${fault} stopped with ${String(error)}`))
      .finally(() => {
        alive--;
      });
  }
  return () => alive;
}

async function live(world: World, fault: FaultName, recipe: Recipe): Promise<void> {
  const random = new RandomStream(world.seed, fault);
  const process = boot(world, fault, 1);
  const transport = world.network.connect(process, new RandomStream(world.seed, `network ${fault}`));
  for (let number = 1; ; number++) {
    await process.sleep(random.between(5000, 30_000));
    if (!world.faults.has(fault)) return;
    const newest = world.auditor.newest?.publication.outerStep ?? -1;
    const bytes = await fileOf(world, fault, number, recipe(random, newest), random);
    await send(transport, process, deltaPath(fault, number), bytes, random);
    count(world, `deltas of ${fault}`);
  }
}

async function fileOf(
  world: World,
  nodeId: string,
  localStep: number,
  { base, value }: ReturnType<Recipe>,
  random: RandomStream,
): Promise<Uint8Array> {
  const { drift, steps } = world.initial;
  const data = Float32Array.from(drift, () => random.between(-1, 1));
  const spoiled = Math.abs(value) >= 1 || Number.isNaN(value);
  data[random.whole(0, data.length - 1)] = value;
  if (spoiled) for (const i of data.keys()) if (random.chance(0.5)) data[i] = value;
  const sink = new MemorySink();
  const shape = [drift.length / 2, 2];
  await writeDelta(
    sink,
    [
      { name: DRIFT, dtype: "F32", shape, data },
      { name: "head", dtype: "F32", shape, data },
      { name: STEPS, dtype: "F32", shape: [steps.length], data: new Float32Array(steps.length) },
    ],
    { nodeId, localStep, baseOuterStep: base, extra: { tokens: "150", steps: "3" } },
  );
  return sink.bytes;
}

/** Like a careless program: a few tries, and never a look at what became of them. */
async function send(
  transport: Transport,
  process: SimulatedProcess,
  path: string,
  bytes: Uint8Array,
  random: RandomStream,
): Promise<void> {
  const content = {
    sizeBytes: bytes.byteLength,
    async *chunks() {
      yield bytes;
    },
  };
  for (let attempt = 0; attempt < 6; attempt++) {
    try {
      const parent = await transport.head();
      await transport.commit({ parent, message: "a delta", operations: [{ kind: "put", path, content }] });
      return;
    } catch (error) {
      if (!(error instanceof TransportError)) throw error;
      await process.sleep(random.between(100, 2000));
    }
  }
}
