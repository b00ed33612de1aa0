// `npm run bench -- step`: time, memory and speed of one training step, ours against a hand-built graph (where
// its folder is given) and against PyTorch, each engine in fresh processes, the engines taking turns.

import { spawnSync } from "node:child_process";
import { cpus } from "node:os";
import { makeProbeData, type Peer, plainEnv, probePeer, speedtronicPeer, torchPeers } from "./peers.js";
import { findPython } from "./python.js";
import { type BenchSize, sizes } from "./sizes.js";
import { spread } from "./stats.js";

export interface StepOptions {
  readonly sizeNames: readonly string[];
  readonly rounds: number;
  readonly steps: number;
  readonly threads: number;
  readonly probe: string | undefined;
  readonly log: (text: string) => void;
}

interface Measurement {
  readonly med_ms: number;
  readonly tok_s: number;
  readonly rss_mb: number;
  readonly [key: string]: unknown;
}

export function benchStep(options: StepOptions): Record<string, unknown> {
  const python = findPython();
  const skipped: string[] = [];
  if (!python) skipped.push("torch: its environment is not there (make it with bash interop/setup-env.sh)");
  if (!options.probe) skipped.push("probe: no --probe DIR given");
  else if (!python) skipped.push("probe: its weights are made with torch, which is not there");
  const results = options.sizeNames.map((name) => ({
    size: name,
    ...measureSize(name, sizes[name]!, python, options),
  }));
  return {
    bench: "step",
    processor: cpus()[0]?.model.trim(),
    cores: cpus().length,
    node: process.versions.node,
    threads: options.threads,
    rounds: options.rounds,
    steps: options.steps,
    skipped,
    results,
  };
}

function measureSize(name: string, size: BenchSize, python: string | undefined, options: StepOptions) {
  const { threads, steps, rounds, probe, log } = options;
  const peers: Peer[] = [speedtronicPeer(size, threads, steps)];
  if (probe && python) peers.push(probePeer(probe, makeProbeData(python, probe, size), threads, steps));
  if (python) peers.push(...torchPeers(python, name, threads, steps));
  const runs = new Map<string, Measurement[]>(peers.map((peer) => [peer.name, []]));
  for (let round = 0; round < rounds; round++) {
    for (const peer of peers) {
      const measured = runPeer(peer);
      runs.get(peer.name)!.push(measured);
      log(`${name} round ${round + 1}/${rounds}: ${peer.name} ${measured.med_ms.toFixed(1)} ms\n`);
    }
  }
  const engines = Object.fromEntries([...runs].map(([engine, list]) => [engine, summary(list)]));
  const ours = engines.speedtronic!;
  const torch = Object.entries(engines).filter(([engine]) => engine.startsWith("torch"));
  const fastest = torch.sort(([, a], [, b]) => b.tokensPerSec.median - a.tokensPerSec.median)[0];
  const ratios = {
    ...(engines.probe
      ? {
          timeOverProbe: ours.stepMs.median / engines.probe.stepMs.median,
          rssOverProbe: ours.rssMb.median / engines.probe.rssMb.median,
        }
      : {}),
    ...(fastest
      ? {
          fastestTorch: fastest[0],
          speedOverFastestTorch: ours.tokensPerSec.median / fastest[1].tokensPerSec.median,
        }
      : {}),
  };
  const about = [...runs].find(([engine]) => engine.startsWith("torch"))?.[1][0];
  return {
    engines,
    ratios,
    torch: about && { version: about.torch, processor: about.processor, blas: about.blas },
  };
}

function summary(list: readonly Measurement[]) {
  return {
    stepMs: spread(list.map((m) => m.med_ms)),
    tokensPerSec: spread(list.map((m) => m.tok_s)),
    rssMb: spread(list.map((m) => m.rss_mb)),
  };
}

function runPeer(peer: Peer): Measurement {
  const [program, ...args] = peer.command;
  const done = spawnSync(program!, args, {
    env: { ...plainEnv(), ...peer.env },
    encoding: "utf8",
    ...(peer.cwd ? { cwd: peer.cwd } : {}),
  });
  const line = done.stdout
    ?.trim()
    .split("\n")
    .findLast((text) => text.startsWith("{"));
  if (done.status !== 0 || !line)
    throw new Error(`${peer.name} failed (${done.status}): ${done.stderr?.slice(-2000)}`);
  return JSON.parse(line) as Measurement;
}

/** The result as a table for people. */
export function formatStep(result: ReturnType<typeof benchStep>): string {
  const lines = [
    `${result.processor}, ${result.cores} cores, ${result.threads} threads, Node ${result.node}; median of ${result.rounds} rounds of ${result.steps} steps, float32`,
  ];
  for (const entry of result.results as ReturnType<typeof measuredSizes>) {
    lines.push(
      "",
      `size ${entry.size}${entry.torch ? `  (torch ${entry.torch.version}, ${entry.torch.blas})` : ""}`,
    );
    lines.push("| engine | ms/step (min–max) | tokens/s | peak RSS MB |", "|---|---|---|---|");
    for (const [engine, m] of Object.entries(entry.engines))
      lines.push(
        `| ${engine} | ${m.stepMs.median.toFixed(1)} (${m.stepMs.min.toFixed(1)}–${m.stepMs.max.toFixed(1)}) | ${Math.round(m.tokensPerSec.median)} | ${Math.round(m.rssMb.median)} |`,
      );
    for (const [key, value] of Object.entries(entry.ratios))
      lines.push(`${key}: ${typeof value === "number" ? value.toFixed(3) : value}`);
  }
  for (const reason of result.skipped as string[]) lines.push("", `skipped ${reason}`);
  return lines.join("\n");
}

declare function measuredSizes(): ({ size: string } & ReturnType<typeof measureSize>)[];
