// A fleet for the tests against the real Python package: a hub with one token per member, nodes of the package as
// processes, nodes and aggregators of ours in this process, and a record of what all of them said.

import { type ChildProcess, execFile, spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import type { Dataset, Sample } from "../src/data/index.js";
import { HubTransport } from "../src/distributed/index.node.js";
import { CommitBudget } from "../src/distributed/transports/hub-budget.js";
import { encodeSafetensors } from "../src/formats/safetensors/index.js";
import { createHubServer } from "../src/hub-server/index.js";
import { buildRuntime, type ConfigInput, trainFromConfig } from "../src/index.js";

export const REPO = "lab/run";
export const VOCAB = 128;
export const WIDTH = 32;
const STEP_SECONDS = 0.04;
const PATIENCE_MS = 240_000;

const script = (name: string) => fileURLToPath(new URL(name, import.meta.url));
const book = readFileSync(script("../assets/moby-dick.txt"), "latin1").replace(/[^\n -~]/g, "");
const PIECE = 40_000;

/** A part of the book, another one for each number. */
export const piece = (index: number): string => book.slice((index + 1) * PIECE, (index + 2) * PIECE);

export interface Said {
  readonly event: string;
  readonly timeMs: number;
  readonly payload: Readonly<Record<string, unknown>>;
}

export interface Member {
  readonly id: string;
  readonly said: readonly Said[];
  /** Newest version that it has installed, -1 for none. */
  readonly installed: () => number;
  /** Ends it after the update in progress, and waits. */
  stop(): Promise<void>;
}

export interface PythonNode extends Member {
  /** Folder of what it leaves for the tests. */
  readonly record: string;
  readonly config: string;
  /** Its own log and everything on stderr. */
  readonly log: () => string;
  readonly ended: Promise<void>;
}

export interface PythonOptions {
  readonly role: "master" | "worker";
  readonly innerSteps: number;
  readonly maxSteps?: number;
  readonly data: number;
}

const common = (id: string, outputDir: string, innerSteps: number, maxSteps: number) => ({
  run: { name: id, seed: 11, max_steps: maxSteps, output_dir: outputDir },
  model: {
    name: "reference_transformer",
    vocab_size: VOCAB,
    max_seq_len: WIDTH,
    n_layer: 1,
    n_head: 2,
    d_model: 16,
    d_ff: 48,
    tie_weights: true,
  },
  optimizer: { name: "adamw", lr: 0.01, weight_decay: 0.01, grad_clip: 1 },
  scheduler: { name: "constant", warmup_steps: 1, max_steps: maxSteps },
  checkpoint: { enabled: false },
  distributed: {
    enabled: true,
    repo_id: REPO,
    node_id: id,
    inner_steps: innerSteps,
    poll_interval: 0.5,
    outer_lr: 0.7,
    outer_momentum: 0.6,
    delta_upload_shutdown_timeout: 30,
  },
});

export class Fleet {
  readonly folder = mkdtempSync(join(tmpdir(), "speedtronic-protocol-"));
  readonly members: Member[] = [];
  readonly #wakers = new Set<() => void>();
  readonly #closers: (() => unknown)[] = [];
  readonly #python: string;
  #endpoint = "";

  private constructor(python: string) {
    this.#python = python;
  }

  /** A hub with a private repository's worth of rules: each of `names` may write. */
  static async open(python: string, names: readonly string[]): Promise<Fleet> {
    const fleet = new Fleet(python);
    const tokenFile = join(fleet.folder, "tokens");
    const lines = names.map((name) => `${name} write ${fleet.token(name)} lab/*\n`);
    writeFileSync(tokenFile, lines.join(""), { mode: 0o600 });
    const server = await createHubServer({ root: join(fleet.folder, "hub"), tokenFile });
    fleet.#closers.push(() => server.close({ graceMs: 1000 }));
    fleet.#endpoint = await server.listen();
    return fleet;
  }

  async close(): Promise<void> {
    for (const closer of this.#closers.splice(0).reverse()) await closer();
    rmSync(this.folder, { recursive: true, force: true });
  }

  token(name: string): string {
    return `hf_${name.replaceAll(/[^a-z0-9]/g, "0").padEnd(30, "x")}`;
  }

  transport(name: string): HubTransport {
    const options = { endpoint: this.#endpoint, repo: REPO, token: this.token(name) };
    // Rounds of a second use up an hour's commits in a minute.
    const transport = new HubTransport({ ...options, budget: new CommitBudget({ perHour: 10_000 }) });
    this.#closers.push(() => transport.close());
    return transport;
  }

  /** Resolves once `holds`; looks again whenever a member says something. */
  async until(what: string, holds: () => boolean): Promise<void> {
    let isLate = false;
    const timer = setTimeout(() => {
      isLate = true;
      this.wake();
    }, PATIENCE_MS);
    try {
      while (!holds()) {
        if (isLate) throw new Error(`not in time: ${what}\n${this.report()}`);
        await new Promise<void>((resolve) => this.#wakers.add(resolve));
      }
    } finally {
      clearTimeout(timer);
    }
  }

  /** To be called after whatever `until` may wait for. */
  readonly wake = (): void => {
    const wakers = [...this.#wakers];
    this.#wakers.clear();
    for (const waker of wakers) waker();
  };

  report(): string {
    return this.members
      .map(({ id, installed, said }) => {
        const shown = said.filter(({ event }) => !/^(?:train_step|data_epoch)$/.test(event)).slice(-8);
        const last = shown.map(({ event, payload }) => `${event} ${JSON.stringify(payload)}`.slice(0, 300));
        return `${id}: installed ${installed()}\n  ${last.join("\n  ")}`;
      })
      .join("\n");
  }

  /** Runs a script of this folder with the member's rights. */
  async python(user: string, name: string, ...args: readonly string[]): Promise<string> {
    const options = { env: this.#env(user), maxBuffer: 2 ** 26 };
    return (await promisify(execFile)(this.#python, [script(name), ...args], options)).stdout;
  }

  #env(user: string): Record<string, string> {
    return {
      PATH: process.env.PATH ?? "",
      HOME: this.#folder("home", user),
      HF_ENDPOINT: this.#endpoint,
      HF_TOKEN: this.token(user),
      OMP_NUM_THREADS: "1",
    };
  }

  #folder(...parts: readonly string[]): string {
    const path = join(this.folder, ...parts);
    mkdirSync(path, { recursive: true });
    return path;
  }

  /** Writes the configuration of a node of the package. */
  pythonConfig(id: string, { role, innerSteps, maxSteps = 100_000, data }: PythonOptions): string {
    const place = this.#folder(id);
    const text = join(place, "text.txt");
    writeFileSync(text, piece(data));
    const { distributed, ...rest } = common(id, place, innerSteps, maxSteps);
    const config = {
      ...rest,
      run: { ...rest.run, device: "cpu" },
      precision: { mode: "fp32" },
      data: {
        text_path: text,
        synthetic: false,
        block_size: WIDTH,
        micro_batch_size: 4,
        target_batch_size: 4,
      },
      logging: { level: "INFO", file: join(place, "log.txt") },
      distributed: { ...distributed, role, cache_dir: join(place, "cache"), state_dir: join(place, "state") },
    };
    const path = join(place, "config.json");
    writeFileSync(path, JSON.stringify(config));
    return path;
  }

  startPython(id: string, options: PythonOptions): PythonNode {
    const config = this.pythonConfig(id, options);
    const record = this.#folder(id, "record");
    const args = [script("protocol_node.py"), "train", config, record, String(STEP_SECONDS)];
    const child: ChildProcess = spawn(this.#python, args, { env: this.#env(id) });
    const said: Said[] = [];
    let errors = "";
    createInterface({ input: child.stdout! }).on("line", (line) => {
      const { event, ...payload } = JSON.parse(line) as { event: string };
      said.push({ event, payload, timeMs: Date.now() });
      this.wake();
    });
    child.stderr!.setEncoding("utf8").on("data", (text: string) => {
      errors += text;
    });
    const ended = new Promise<void>((resolve) => child.once("close", () => resolve()));
    void ended.then(this.wake);
    const node: PythonNode = {
      id,
      said,
      record,
      config,
      ended,
      installed: () => Number(said.at(-1)?.payload.installed ?? -1),
      log: () => `${readFileSync(join(this.folder, id, "log.txt"), "utf8")}\n${errors}`,
      stop: async () => {
        child.kill("SIGTERM");
        await ended;
      },
    };
    this.#closers.push(async () => {
      child.kill("SIGKILL");
      await ended;
    });
    this.members.push(node);
    return node;
  }

  /** Weights that a run begins with: drawn by the package or by us. */
  async initialWeights(by: "python" | "ours"): Promise<Uint8Array> {
    if (by === "python") {
      const config = this.pythonConfig("init", { role: "worker", innerSteps: 1, data: 0 });
      const path = join(this.folder, "initial.safetensors");
      await this.python("init", "protocol_node.py", "init", config, path);
      return readFileSync(path);
    }
    const { distributed: _, ...config } = common("init", this.#folder("init"), 1, 1);
    const runtime = await buildRuntime(config as ConfigInput);
    try {
      await runtime.refreshModel();
      return encodeSafetensors(
        [...runtime.model.stateEntries()].map(({ name, owner }) => {
          if ("value" in owner) throw new Error(`${name} is a buffer, which this model has none of`);
          return { name, dtype: "F32" as const, shape: owner.shape, data: owner.data };
        }),
      );
    } finally {
      await runtime.close();
    }
  }

  /** A training node of ours. */
  startNode(
    id: string,
    { innerSteps, data }: { readonly innerSteps: number; readonly data: number },
  ): Member {
    const config: ConfigInput = {
      ...common(id, this.#folder(id), innerSteps, 100_000),
      data: { block_size: WIDTH, micro_batch_size: 4 },
    } as ConfigInput;
    Object.assign(config.distributed!, { role: "worker" });
    Object.assign(config.run!, { threads: 1 });
    const said: Said[] = [];
    const ending = new AbortController();
    let installed = -1;
    const hook = (event: string, payload: Readonly<Record<string, unknown>>) => {
      if (event === "global_installed") installed = Number(payload.outer_step);
      said.push({ event, payload, timeMs: Date.now() });
      this.wake();
    };
    const done = trainFromConfig(config, {
      transport: this.transport(id),
      dataset: new PacedText(piece(data)),
      hooks: [hook],
      signal: ending.signal,
    });
    // Reported by stop(); until then it must not end the process.
    done.catch((error: unknown) => hook("failed", { error: String(error) }));
    const stop = async () => {
      ending.abort();
      await done;
    };
    this.#closers.push(async () => {
      ending.abort();
      await done.catch(() => undefined);
    });
    const node = { id, said, installed: () => installed, stop };
    this.members.push(node);
    return node;
  }
}

/** Blocks of a text; those of a batch, which are read at once, come about as fast as the other nodes make updates. */
class PacedText implements Dataset {
  readonly #ids: Int32Array;

  constructor(text: string) {
    this.#ids = Int32Array.from(Buffer.from(text, "latin1"));
  }

  get length(): number {
    return Math.floor(this.#ids.length / (WIDTH + 1));
  }

  async get(index: number): Promise<Sample> {
    await new Promise((resolve) => setTimeout(resolve, STEP_SECONDS * 1000));
    const start = index * (WIDTH + 1);
    return {
      inputIds: this.#ids.subarray(start, start + WIDTH),
      labels: this.#ids.subarray(start + 1, start + WIDTH + 1),
    };
  }

  describe(): Record<string, unknown> {
    return { kind: "paced", length: this.length };
  }
}

/** Loss of a member's updates between two moments, or of its first or last ones. */
export function losses({ said }: Member): readonly { readonly timeMs: number; readonly loss: number }[] {
  return said
    .filter(({ event }) => event === "train_step")
    .map(({ payload, timeMs }) => ({ timeMs, loss: Number(payload.loss) }));
}

export const mean = (values: readonly number[]): number =>
  values.reduce((sum, value) => sum + value, 0) / values.length;
