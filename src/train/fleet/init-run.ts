// Sets a run up in its repository: makes the repository, private, and commits what all nodes share, in one commit.
// Weights come later, from the aggregator.

import { createHash } from "node:crypto";
import type { SpeedtronicConfig } from "../../config/schema.js";
import type {
  CallOptions,
  FileContent,
  RepoOperation,
  Transport,
} from "../../distributed/transports/contract.js";
import { TransportError } from "../../distributed/transports/errors.js";
import { RunError } from "./errors.js";
import { expectedFingerprint, requireSameModel } from "./expected-model.js";
import { type RunSetup, readSetup } from "./read-run.js";
import { CONFIG_PATH, encodeFingerprint, encodeSharedConfig, FINGERPRINT_PATH } from "./run-files.js";

/** Races against commits of others before it is given up. */
const ATTEMPTS = 20;

export interface InitOptions extends CallOptions {
  readonly transport: Transport;
  readonly config: SpeedtronicConfig;
  /** Set the run up even where everybody can read it. */
  readonly allowsPublic: boolean;
  /** Replace the set-up that is there. */
  readonly replaces: boolean;
}

export interface InitResult {
  /** The repository was made. */
  readonly isNewRepository: boolean;
  readonly isPublic: boolean;
  /** False: exactly this was there already. */
  readonly isCommitted: boolean;
  readonly revision: string;
  readonly paths: readonly string[];
}

/** @throws RunError `run.public_repository`, `run.already_set_up`, `run.other_model`, `run.busy`; TransportError. */
export async function initRun({ transport, config, signal, ...options }: InitOptions): Promise<InitResult> {
  const model = await expectedFingerprint(config);
  const files = new Map([
    [CONFIG_PATH, encodeSharedConfig(config)],
    [FINGERPRINT_PATH, encodeFingerprint(model)],
  ]);
  const paths = [...files.keys()];
  const { created: isNewRepository, isPublic } = await transport.create({ signal });
  if (isPublic && !options.allowsPublic) {
    throw new RunError(
      "public_repository",
      `${transport.title} can be read by everybody, and so could the weights of the run: make it private, choose another one, or say that this is meant (--public-ok)`,
    );
  }
  const operations = [...files].map(
    ([path, text]): RepoOperation => ({ kind: "put", path, content: textContent(text) }),
  );
  let isCommitted = false;
  for (let attempt = 1; attempt <= ATTEMPTS; attempt++) {
    const setup = await readSetup(transport, { signal });
    const { revision } = setup;
    if (differingFiles(setup, files).length === 0) {
      return { isNewRepository, isPublic, isCommitted, revision, paths };
    }
    const run = { fingerprint: setup.head?.facts.fingerprint, where: `the run in ${transport.title}` };
    requireSameModel(model, run, "Use the configuration of that run, or another repository");
    if (!options.replaces) refuseOther(transport, setup, files);
    try {
      const message = "speedtronic: configuration of the run";
      const committed = await transport.commit({ parent: revision, message, operations }, { signal });
      return { isNewRepository, isPublic, isCommitted: true, revision: committed, paths };
    } catch (error) {
      const problem = error instanceof TransportError ? error.problem : undefined;
      if (problem !== "conflict" && problem !== "ambiguous") throw error;
      // Found in place at the next look, it is ours.
      isCommitted ||= problem === "ambiguous";
    }
  }
  throw new RunError("busy", `${transport.title} changes faster than a commit can be made; try again`);
}

function differingFiles(setup: RunSetup, files: ReadonlyMap<string, string>): string[] {
  const present = new Map([
    [CONFIG_PATH, setup.configText],
    [FINGERPRINT_PATH, setup.fingerprintText],
  ]);
  return [...files].filter(([path, text]) => present.get(path) !== text).map(([path]) => path);
}

function refuseOther(transport: Transport, setup: RunSetup, files: ReadonlyMap<string, string>): void {
  const { configText, fingerprintText } = setup;
  if (configText === undefined && fingerprintText === undefined) return;
  const theirs = new Set((configText ?? "").split("\n"));
  const lines = files
    .get(CONFIG_PATH)!
    .split("\n")
    .filter((line) => !theirs.has(line));
  const shown = lines.slice(0, 5).map((line) => line.trim());
  const example =
    shown.length === 0 ? "" : ` (new here: ${shown.join("; ")}${lines.length > 5 ? "; …" : ""})`;
  throw new RunError(
    "already_set_up",
    `${transport.title} has another ${differingFiles(setup, files).join(" and ")} already${example}: choose another repository, or replace them with --force, which nodes notice when they join`,
    { details: { lines } },
  );
}

function textContent(text: string): FileContent {
  const bytes = new TextEncoder().encode(text);
  return {
    sizeBytes: bytes.byteLength,
    sha256: createHash("sha256").update(bytes).digest("hex"),
    async *chunks() {
      yield bytes;
    },
  };
}
