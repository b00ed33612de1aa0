// One whole round of our aggregator: everything between two versions, from the listing to the commit. Prints one JSON
// line, with marks around the round and around an idle poll. Arguments: endpoint, repository, folder for scratch, lr, mu,
// number of deltas.

import { importBuilt } from "./dist.mjs";
import { peakMemoryMb } from "./peak-memory.mjs";

const { Aggregator, diskSurroundings, HubTransport, nodeHub } =
  await importBuilt("distributed/index.node.js");

const [endpoint, repo, folder, lr, mu, deltas] = process.argv.slice(2);

const transport = new HubTransport({
  endpoint,
  repo,
  // As a run does it (open-transport.node.ts).
  ...nodeHub,
});
const aggregator = await Aggregator.start({
  transport,
  surroundings: await diskSurroundings(folder),
  settings: {
    outerLr: Number(lr),
    outerMomentum: Number(mu),
    momentumWarmupRounds: 0,
    merge: "python",
    stalenessLimit: 10,
    stalenessDiscount: 1,
    clipFactor: null,
    quorum: Number(deltas),
    graceMs: 1e9,
    keepVersions: 10,
  },
  masterId: "bench",
  pollIntervalMs: 1000,
});
const line = (value) => process.stdout.write(`${JSON.stringify(value)}\n`);
/** Waits until the other end has taken note. */
const mark = (moment) =>
  new Promise((resolve) => {
    process.stdin.once("data", resolve);
    line({ moment });
  });

await mark("begin");
const before = process.cpuUsage();
const start = performance.now();
await aggregator.poll();
const ms = performance.now() - start;
const { user, system } = process.cpuUsage(before);
if (aggregator.outerStep !== 1)
  throw new Error(`the round published version ${aggregator.outerStep} instead of 1`);
line({
  ms,
  cpu_ms: (user + system) / 1000,
  peak_mb: peakMemoryMb(),
  outer_step: aggregator.outerStep,
  versions: { node: process.versions.node },
});
// The first look sees the commit that the round itself made; the next one finds nothing new.
await aggregator.poll();
await mark("idle");
await aggregator.poll();
await mark("end");
await transport.close();
process.exit();
