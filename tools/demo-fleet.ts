// `npm run demo:fleet`: our hub, an aggregator and four nodes as processes of their own, each node on its quarter of a
// book, with one screen of live status; then the same four nodes alone, and the losses of all on the held-out tail.
// `--steps N` trains longer or shorter.

import { type ChildProcess, execFile, spawn } from "node:child_process";
import { createWriteStream, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { setPriority } from "node:os";
import { join } from "node:path";
import { parseArgs, promisify } from "node:util";
import { parse } from "yaml";

const FOLDER = "runs/fleet";
const CONFIG = "configs/fleet.yaml";
const BOOK = "assets/moby-dick.txt";
const HELD_OUT = 0.05;
const NODES = 4;
const PIECE = 4096;
const MARGIN = 0.05;
// Four nodes compute on few cores: hub and aggregator go first, or each round waits for its turn on the processor.
const NODE_PRIORITY = 10;

const { values } = parseArgs({ options: { steps: { type: "string", default: "250" } } });
const steps = Number(values.steps);
const children = new Set<ChildProcess>();
const startedAt = performance.now();

interface Job {
  readonly name: string;
  readonly child: ChildProcess;
  readonly ended: Promise<number>;
}

function speedtronic(name: string, args: readonly string[], env: Record<string, string> = {}): Job {
  const log = createWriteStream(join(FOLDER, `${name}.log`), { flags: "a" });
  const child = spawn(process.execPath, ["dist/cli/main.js", ...args], {
    env: { ...process.env, ...env },
    stdio: ["ignore", "pipe", "pipe"],
  });
  children.add(child);
  child.stdout.pipe(log);
  child.stderr.pipe(log);
  const ended = new Promise<number>((resolve) => {
    child.on("exit", (code) => {
      children.delete(child);
      resolve(code ?? 1);
    });
  });
  return { name, child, ended };
}

function train(
  name: string,
  quarter: number,
  extra: readonly string[],
  env: Record<string, string> = {},
): Job {
  const settings = [
    `data.text_path=${join(FOLDER, `quarter-${quarter}.txt`)}`,
    `run.max_steps=${steps}`,
    `run.output_dir=${join(FOLDER, name)}`,
    `logging.json_file=${join(FOLDER, name, "metrics.jsonl")}`,
    ...extra,
  ];
  const job = speedtronic(name, ["train", "-c", CONFIG, ...settings.flatMap((text) => ["--set", text])], env);
  if (job.child.pid !== undefined) setPriority(job.child.pid, NODE_PRIORITY);
  return job;
}

/** The newest values of a run's events. */
function readMetrics(name: string): Record<string, Record<string, unknown> & { count: number }> {
  let text: string;
  try {
    text = readFileSync(join(FOLDER, name, "metrics.jsonl"), "utf8");
  } catch {
    return {};
  }
  const newest: Record<string, Record<string, unknown> & { count: number }> = {};
  for (const line of text.split("\n").filter((part) => part.endsWith("}"))) {
    const { event, ...payload } = JSON.parse(line) as { event: string };
    newest[event] = { ...payload, count: (newest[event]?.count ?? 0) + 1 };
  }
  return newest;
}

function statusLines(title: string, names: readonly string[]): string[] {
  const seconds = Math.round((performance.now() - startedAt) / 1000);
  const published = readMetrics("aggregator").version_published;
  return [
    `${title}  ${seconds} s${published ? `  version ${published.outer_step}` : ""}`,
    ...names.map((name) => {
      const { train_step: step, global_installed: installed } = readMetrics(name);
      const loss = typeof step?.loss === "number" ? step.loss.toFixed(4) : "–";
      const version = installed ? `  version ${installed.outer_step}, ${installed.count} installed` : "";
      return `  ${name}  step ${String(step?.step ?? 0).padStart(4)}/${steps}  loss ${loss}${version}`;
    }),
  ];
}

/** Shows the jobs until all have ended; a job that fails ends the demo. */
async function watch(title: string, jobs: readonly Job[]): Promise<void> {
  const names = jobs.map(({ name }) => name);
  const isLive = process.stdout.isTTY === true;
  let shown = 0;
  const draw = () => {
    const lines = statusLines(title, names);
    process.stdout.write(
      `${shown > 0 ? `\x1b[${shown}A` : ""}${lines.map((line) => `\x1b[2K${line}\n`).join("")}`,
    );
    shown = lines.length;
  };
  const timer = setInterval(
    () => (isLive ? draw() : console.log(statusLines(title, names).join("\n"))),
    isLive ? 500 : 15_000,
  );
  const codes = await Promise.all(jobs.map(({ ended }) => ended));
  clearInterval(timer);
  if (isLive) draw();
  else console.log(statusLines(title, names).join("\n"));
  const failed = names.filter((_, i) => codes[i] !== 0);
  if (failed.length > 0) throw new Error(`${failed.join(", ")} failed; see ${FOLDER}/${failed[0]}.log`);
}

async function lossOf(weights: string): Promise<{ loss: number; tokens: number }> {
  const { distributed: _, ...config } = parse(readFileSync(CONFIG, "utf8")) as Record<
    string,
    Record<string, unknown>
  >;
  const full = {
    ...config,
    output_dir: join(FOLDER, "scores"),
    run: { threads: 2 },
    data: { ...config.data, text_path: BOOK, validation_fraction: HELD_OUT },
    logging: {},
    checkpoint: { enabled: false },
  };
  const { stdout } = await promisify(execFile)(process.execPath, [
    "tools/demo-fleet-loss.mjs",
    weights,
    JSON.stringify(full),
  ]);
  return JSON.parse(stdout) as { loss: number; tokens: number };
}

/** Pieces dealt in turn, as a run over one text deals its shards, so that each node sees all of the book's parts. */
function quarterOf(text: Buffer, node: number): Buffer {
  const pieces: Buffer[] = [];
  for (let at = node * PIECE; at < text.length; at += NODES * PIECE)
    pieces.push(text.subarray(at, at + PIECE));
  return Buffer.concat(pieces);
}

async function main(): Promise<boolean> {
  rmSync(FOLDER, { recursive: true, force: true });
  mkdirSync(FOLDER, { recursive: true });
  const book = readFileSync(BOOK);
  const text = book.subarray(0, book.length - Math.ceil(book.length * HELD_OUT));
  for (let i = 0; i < NODES; i++) writeFileSync(join(FOLDER, `quarter-${i}.txt`), quarterOf(text, i));

  const hub = speedtronic("hub", ["hub", "serve", "--root", join(FOLDER, "hub"), "--port", "0"]);
  const endpoint = await new Promise<string>((resolve, reject) => {
    hub.child.stdout?.on("data", (data: Buffer) => {
      const found = /HF_ENDPOINT=(\S+)/.exec(data.toString())?.[1];
      if (found !== undefined) resolve(found);
    });
    void hub.ended.then(() => reject(new Error(`the hub ended; see ${FOLDER}/hub.log`)));
  });
  const env = { HF_ENDPOINT: endpoint, HF_TOKEN: "" };
  const aggregate = [
    "aggregate",
    "-c",
    CONFIG,
    ...[
      "run.output_dir=runs/fleet/aggregator",
      `logging.json_file=${FOLDER}/aggregator/metrics.jsonl`,
    ].flatMap((text) => ["--set", text]),
  ];
  const begin = speedtronic("aggregator", [...aggregate, "--drain"], env);
  if ((await begin.ended) !== 0) throw new Error(`the aggregator failed; see ${FOLDER}/aggregator.log`);
  const aggregator = speedtronic("aggregator", aggregate, env);
  const names = Array.from({ length: NODES }, (_, i) => `node-${i + 1}`);
  const together = names.map((name, i) =>
    train(name, i, ["distributed.enabled=true", `distributed.node_id=${name}`], env),
  );
  await watch("together", together);
  aggregator.child.kill("SIGINT");
  await aggregator.ended;
  const drain = speedtronic("aggregator", [...aggregate, "--drain"], env);
  if ((await drain.ended) !== 0) throw new Error(`the last round failed; see ${FOLDER}/aggregator.log`);
  const weights = await fetch(`${endpoint}/lab/fleet/resolve/main/global/latest.safetensors`);
  writeFileSync(join(FOLDER, "global.safetensors"), Buffer.from(await weights.arrayBuffer()));
  const installs = names.map((name) => readMetrics(name).global_installed?.count ?? 0);
  const versions = Number(readMetrics("aggregator").version_published?.outer_step ?? 0);
  hub.child.kill("SIGINT");

  const alone = names.map((_, i) => train(`alone-${i + 1}`, i, ["distributed.enabled=false"]));
  await watch("alone", alone);

  const rows: [string, number][] = [];
  const global = await lossOf(join(FOLDER, "global.safetensors"));
  rows.push(["together", global.loss]);
  for (const { name } of [...together, ...alone]) rows.push([name, (await lossOf(join(FOLDER, name))).loss]);
  console.log(`\nloss on the held-out tail (${global.tokens} bytes), nats per byte:`);
  for (const [name, loss] of rows) console.log(`  ${name.padEnd(10)} ${loss.toFixed(4)}`);
  const best = Math.min(...rows.filter(([name]) => name.startsWith("alone")).map(([, loss]) => loss));
  const gain = best - global.loss;
  console.log(`${versions} versions published, installed by the nodes: ${installs.join(", ")}`);
  console.log(
    `together is ${Math.abs(gain).toFixed(4)} ${gain >= 0 ? "below" : "above"} the best node alone; ` +
      `${Math.round((performance.now() - startedAt) / 1000)} s in all`,
  );
  return gain >= MARGIN;
}

process.on("exit", () => {
  for (const child of children) child.kill("SIGKILL");
});
for (const signal of ["SIGINT", "SIGTERM"] as const) process.on(signal, () => process.exit(130));

try {
  process.exitCode = (await main()) ? 0 : 1;
} catch (error) {
  console.error(`demo:fleet: ${error instanceof Error ? error.message : String(error)}`);
  process.exitCode = 1;
}
