// What the tests of init, join, status and verify share: a hub of their own, the command line pointed at it, and an
// aggregator that ends.

import { join } from "node:path";
import { buildRuntime } from "speedtronic";
import { afterEach, vi } from "vitest";
import {
  Aggregator,
  diskSurroundings,
  HubTransport,
  type MergeSettings,
  type Transport,
} from "../../src/distributed/index.node.js";
import { FolderTransport } from "../../src/distributed/transports/folder.node.js";
import { encodeSafetensors } from "../../src/formats/safetensors/index.js";
import { createHubServer, type HubServerOptions } from "../../src/hub-server/index.js";
import { temporaryFolder } from "../train/helpers.js";
import { type CliOptions, type CliResult, cli } from "./harness.js";

const closers: (() => Promise<unknown> | unknown)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
  vi.unstubAllEnvs();
});

export interface TestHub {
  readonly endpoint: string;
  readonly root: string;
  connect(repo?: string, token?: string): HubTransport;
  /** The command line with HF_ENDPOINT set. */
  cli(args: readonly string[], options?: CliOptions): Promise<CliResult>;
  stop(): Promise<void>;
}

export const REPO = "lab/run";

export async function startHub(options: Partial<HubServerOptions> = {}): Promise<TestHub> {
  const root = temporaryFolder();
  const server = await createHubServer({ root, port: 0, ...options });
  closers.push(() => server.close({ graceMs: 500 }));
  const endpoint = await server.listen();
  // Training reads the process's environment.
  vi.stubEnv("HF_ENDPOINT", endpoint);
  vi.stubEnv("HF_TOKEN", "");
  return {
    endpoint,
    root,
    connect: (repo = REPO, token) => {
      const transport = new HubTransport({ endpoint, repo, token });
      closers.push(() => transport.close());
      return transport;
    },
    cli: (args, { env, ...rest } = {}) => cli(args, { env: { HF_ENDPOINT: endpoint, ...env }, ...rest }),
    stop: () => server.close(),
  };
}

/** Where a fleet meets: what its commands call the repository, and how tests look into it. */
export interface Meeting {
  readonly repo: string;
  connect(): Transport;
  cli: TestHub["cli"];
}

/** The same on a hub and in a folder. */
export const meetings: Readonly<Record<"hub" | "folder", () => Promise<Meeting>>> = {
  hub: async () => {
    const hub = await startHub();
    return { repo: REPO, connect: () => hub.connect(), cli: hub.cli };
  },
  folder: async () => {
    const root = join(temporaryFolder(), "repository");
    return {
      repo: `file:${root}`,
      connect: () => {
        const transport = new FolderTransport({ root });
        closers.push(() => transport.close());
        return transport;
      },
      cli,
    };
  },
};

export async function readText(transport: Transport, path: string): Promise<string> {
  const bytes = await transport.read(await transport.head(), path, 2 ** 20);
  if (bytes === undefined) throw new Error(`${path} is missing`);
  return new TextDecoder().decode(bytes);
}

/** Becomes the master of the run; starts it with drawn weights if there is none. */
export async function startAggregator(
  transport: Transport,
  configFile: string,
  settings: Partial<MergeSettings> = {},
): Promise<Aggregator> {
  const { loadConfigFile } = await import("../../src/config/load.node.js");
  const config = await loadConfigFile(configFile, {
    overrides: [{ path: "run.output_dir", value: temporaryFolder() }],
  });
  const runtime = await buildRuntime(config);
  await runtime.refreshModel();
  const weights = encodeSafetensors(
    [...runtime.model.stateEntries()].map(({ name, owner }) => {
      if ("value" in owner) throw new Error(`${name} is a buffer, which this model has none of`);
      return { name, dtype: "F32" as const, shape: owner.shape, data: owner.data };
    }),
  );
  await runtime.close();
  return Aggregator.start({
    transport,
    surroundings: await diskSurroundings(temporaryFolder()),
    settings: {
      outerLr: 0.7,
      outerMomentum: 0.5,
      momentumWarmupRounds: 0,
      merge: "tokens",
      stalenessLimit: 100,
      stalenessDiscount: 1,
      clipFactor: null,
      quorum: 1,
      graceMs: 0,
      keepVersions: 1000,
      ...settings,
    },
    masterId: "master",
    pollIntervalMs: 20,
    bootstrap: { writeState: async (sink) => sink.write(weights) },
  });
}
