// Workers, an aggregator and maybe a hub, with a folder of their own for configurations, state and logs: how they are
// called. Nothing is started here.

import { once } from "node:events";
import { mkdirSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { stringify } from "yaml";
import { sampleText } from "../cli/harness.js";
import { Killable, type KillableOptions } from "./kill-process.js";

export const WORKERS = ["w1", "w2"];
export const REPO = "lab/run";
const AGGREGATOR = "chief";
/** No multiple of the inner steps, so that checkpoints lie anywhere between two deltas. */
export const CHECKPOINT_STEPS = 10;

export interface Fleet {
  readonly folder: string;
  readonly repo: string;
  /** Undefined in a folder. */
  readonly endpoint: string | undefined;
  readonly workers: readonly Killable[];
  readonly aggregator: Killable;
  readonly hub: Killable | undefined;
  readonly hubRoot: string;
  /** Another command of the same fleet. */
  command(name: string, args: readonly string[]): Killable;
  metricsFile(name: string): string;
}

/** Writes what a fleet needs into `folder`; nothing is started. */
export async function layOutFleet(
  folder: string,
  { program, meeting, seed }: { program: string; meeting: "file" | "hub"; seed: number },
): Promise<Fleet> {
  mkdirSync(folder, { recursive: true });
  const port = meeting === "hub" ? await freePort() : 0;
  const endpoint = meeting === "hub" ? `http://127.0.0.1:${port}` : undefined;
  const repo = meeting === "hub" ? REPO : `file:${join(folder, "repository")}`;
  const env: Readonly<Record<string, string>> = endpoint === undefined ? {} : { HF_ENDPOINT: endpoint };
  const hubRoot = join(folder, "hub-root");
  const text = join(folder, "train.txt");
  writeFileSync(text, sampleText);
  const metricsFile = (name: string) => join(folder, name, "metrics.jsonl");
  const command = (name: string, args: readonly string[], more: Partial<KillableOptions> = {}) =>
    new Killable({ name, program, args, env, logFile: join(folder, `${name}.log`), ...more });
  const configOf = (name: string, index: number): string => {
    const file = join(folder, `${name}.yaml`);
    writeFileSync(file, stringify(runConfig({ name, seed: seed + index, repo, text, folder })));
    return file;
  };
  return {
    folder,
    repo,
    endpoint,
    metricsFile,
    command,
    hubRoot,
    workers: WORKERS.map((name, i) =>
      command(name, ["train", "--config", configOf(name, i + 1), "--resume", "auto"]),
    ),
    aggregator: command(AGGREGATOR, ["aggregate", "--config", configOf(AGGREGATOR, 0)]),
    hub:
      meeting === "hub"
        ? command("hub", ["hub", "serve", "--root", hubRoot, "--port", String(port)])
        : undefined,
  };
}

function runConfig({
  name,
  seed,
  repo,
  text,
  folder,
}: {
  name: string;
  seed: number;
  repo: string;
  text: string;
  folder: string;
}) {
  const output = join(folder, name);
  return {
    run: { max_steps: 1_000_000, output_dir: output, threads: 1, seed },
    model: { vocab_size: 256, max_seq_len: 16, n_layer: 1, n_head: 2, d_model: 16, d_ff: 32 },
    data: { text_path: text, micro_batch_size: 2, target_batch_size: 2 },
    optimizer: { lr: 3.0e-3 },
    scheduler: { name: "constant", warmup_steps: 0 },
    checkpoint: { every_steps: CHECKPOINT_STEPS, keep_last: 2 },
    logging: { every_steps: 1, json_file: join(output, "metrics.jsonl") },
    distributed: {
      enabled: true,
      role: "worker",
      repo_id: repo,
      node_id: name,
      inner_steps: 4,
      poll_interval: 0.15,
      staleness_limit: 1_000_000,
      keep_versions: 1_000_000,
      outer_momentum: 0.5,
      grace_seconds: 0,
      commits_per_hour: 1_000_000,
      retry_initial: 0.05,
      retry_max: 0.5,
      delta_upload_shutdown_timeout: 60,
    },
  };
}

async function freePort(): Promise<number> {
  const server = createServer();
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  server.close();
  await once(server, "close");
  if (address === null || typeof address === "string") throw new Error("no port");
  return address.port;
}
