// `kill -9` of master or worker (and of the hub) at random moments in a real run of several processes: the run goes on
// after each restart, no step is counted twice or lost, and the final state is that of a replay of all ledgers, bit for
// bit. SPEEDTRONIC_SLOW_FRACTION scales the number of kills.

import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { FolderTransport } from "../../src/distributed/transports/folder.node.js";
import { FolderHistory } from "../../src/distributed/transports/folder-history.node.js";
import { FolderStore } from "../../src/distributed/transports/folder-store.node.js";
import { HubTransport } from "../../src/distributed/transports/hub.js";
import { type Fleet, layOutFleet, REPO, WORKERS } from "./kill-fleet.js";
import { finishAndKill, finished, killAll, runAndKill } from "./kill-loop.js";
import { buildCli } from "./kill-process.js";
import { publishedVersions, replay } from "./kill-replay.js";
import { checkSteps, cutOffUploads, readLives } from "./kill-steps.js";

const KILLS = Math.ceil(50 * Number(process.env.SPEEDTRONIC_SLOW_FRACTION ?? "1"));
const RUNS = [
  { meeting: "file", seed: 1 },
  { meeting: "hub", seed: 2 },
] as const;
const isRun = (name: string) => RUNS.some(({ meeting }) => meeting === name);
const folder = mkdtempSync(join(tmpdir(), "speedtronic-kill-"));
let program = "";
beforeAll(() => {
  program = buildCli(folder);
});
afterAll(() => {
  // The logs of a run that failed are kept.
  if (readdirSync(folder).every((name) => !isRun(name))) rmSync(folder, { recursive: true, force: true });
});

/** Oldest first. */
const revisionsOf = {
  file: async ({ folder: root }: Fleet) => {
    const history = new FolderHistory(new FolderStore(join(root, "repository")));
    const numbers = await history.numbers();
    const revisions = await Promise.all(numbers.map((number) => history.revisionAt(number)));
    return revisions.map((revision) => revision!);
  },
  hub: async ({ endpoint }: Fleet) => {
    const revisions: string[] = [];
    for (let url: string | undefined = `${endpoint}/api/models/${REPO}/commits/main`; url !== undefined; ) {
      const response: Response = await fetch(url);
      const page = (await response.json()) as { readonly id: string }[];
      revisions.push(...page.map(({ id }) => id));
      url = /<([^>]+)>; rel="next"/.exec(response.headers.get("link") ?? "")?.[1];
    }
    return revisions.reverse();
  },
};

test.for(RUNS)(
  "killed at random moments, a run on $meeting goes on and counts each step once",
  async ({ meeting, seed }) => {
    const fleet = await layOutFleet(join(folder, meeting), { program, meeting, seed });
    try {
      await runAndKill(fleet, { kills: KILLS, hubEvery: 5, seed });
      // The workers' last lives have an end in sight; the aggregator's ends in the middle of its work.
      const endings = fleet.workers.map((worker) => {
        const { lastStep } = readLives(fleet.metricsFile(worker.name)).at(-1)!;
        return finishAndKill(fleet, worker, { lastStep: lastStep + 40, seed });
      });
      expect(await Promise.all(endings), fleet.workers.map(({ tail }) => tail).join("\n")).toEqual(
        WORKERS.map(() => 0),
      );
      await fleet.aggregator.kill();
      fleet.aggregator.start(["--drain"]);
      expect(await finished(fleet.aggregator), fleet.aggregator.tail).toBe(0);

      const verify = fleet.command("verify", ["verify", fleet.repo]);
      const check = fleet.command("check", ["hub", "check", "--root", fleet.hubRoot]);
      for (const command of meeting === "hub" ? [verify, check] : [verify]) {
        command.start();
        expect(await finished(command), command.tail).toBe(0);
      }
      const transport =
        fleet.endpoint === undefined
          ? new FolderTransport({ root: fleet.repo.slice("file:".length) })
          : new HubTransport({ endpoint: fleet.endpoint, repo: REPO });
      try {
        const versions = await publishedVersions(transport, await revisionsOf[meeting](fleet));
        const counted = await replay(transport, versions);
        let cutOff = 0;
        for (const { name } of fleet.workers) {
          const own = [...counted].filter(([path]) => path.startsWith(`nodes/${name}/`));
          const lives = readLives(fleet.metricsFile(name));
          checkSteps(lives, new Map(own));
          cutOff += cutOffUploads(lives);
        }
        // Proof that kills hit work and not the time between it. How many depends on the machine.
        expect(cutOff).toBeGreaterThanOrEqual(Math.floor(KILLS / 25));
        expect(versions.length).toBeGreaterThan(KILLS);
      } finally {
        await transport.close();
      }
    } finally {
      await killAll(fleet);
    }
    rmSync(fleet.folder, { recursive: true, force: true });
  },
);
