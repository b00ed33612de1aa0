// From what a repository says about its run, and what this machine adds, to a configuration that trains as one of its
// nodes. Trains nothing.

import { randomUUID } from "node:crypto";
import { existsSync } from "node:fs";
import { isAbsolute, join } from "node:path";
import { CheckpointStore } from "../../checkpoint/store.js";
import { applyOverrides, type Override } from "../../config/overrides.js";
import type { ConfigProblem } from "../../config/problem.js";
import { resolveConfig } from "../../config/resolve.js";
import type { SpeedtronicConfig } from "../../config/schema.js";
import type { ConfigSource } from "../../config/source.js";
import { refuseUnsupported } from "../../config/unsupported.js";
import { openTextFile } from "../../data/files/text-file.js";
import { persistentNodeId } from "../../distributed/node/state-folder.node.js";
import { ConfigError } from "../../util/errors.js";
import { expectedFingerprint, requireSameModel } from "./expected-model.js";
import type { SharedRun } from "./read-run.js";
import { needsText } from "./run-files.js";

export interface JoinOptions {
  /** As `distributed.repo_id` takes it. */
  readonly repo: string;
  /** For messages. */
  readonly title: string;
  /** What is this machine's own, the last one wins. */
  readonly overrides: readonly Override[];
  readonly onWarning?: (warning: ConfigProblem) => void;
}

/**
 * The complete configuration of this node.
 * @throws ConfigError; RunError `run.other_model`; ModelError.
 */
export async function joinConfig(run: SharedRun, options: JoinOptions): Promise<SpeedtronicConfig> {
  const { shared } = run;
  const { repo, title, overrides } = options;
  const source = applyOverrides(shared.source, [
    { path: "run.output_dir", value: defaultOutputDir(repo), option: "speedtronic join" },
    ...overrides,
    { path: "distributed.enabled", value: true, option: "speedtronic join" },
    { path: "distributed.role", value: "worker", option: "speedtronic join" },
    { path: "distributed.repo_id", value: repo, option: "speedtronic join" },
  ]);
  const hasText = ["data.text_path", "data.dataset", "data.sources"]
    .map((path) => source.entries.get(path)?.value)
    .find((value) => value !== undefined && value !== null);
  if (needsText(shared) && hasText === undefined) {
    throw new ConfigError(
      `the run in ${title} trains on text, and each node brings its own: name it with --data`,
      {
        code: "run.no_data",
      },
    );
  }
  return resolveOfRun(run, options, source);
}

/**
 * The same for a machine that publishes the run's versions. It needs no text.
 * @throws ConfigError; RunError `run.other_model`; ModelError.
 */
export async function aggregatorConfig(run: SharedRun, options: JoinOptions): Promise<SpeedtronicConfig> {
  const { repo, overrides } = options;
  const option = "speedtronic aggregate";
  const source = applyOverrides(run.shared.source, [
    { path: "run.output_dir", value: defaultOutputDir(repo), option },
    ...overrides,
    { path: "data.synthetic", value: true, option },
    { path: "distributed.enabled", value: true, option },
    { path: "distributed.role", value: "master", option },
    { path: "distributed.repo_id", value: repo, option },
  ]);
  return resolveOfRun(run, options, source);
}

async function resolveOfRun(
  { fingerprint, head }: SharedRun,
  { title, onWarning }: JoinOptions,
  source: ConfigSource,
): Promise<SpeedtronicConfig> {
  const config = resolveConfig(source, onWarning === undefined ? {} : { onWarning });
  refuseUnsupported(config);
  const ours = await expectedFingerprint(config);
  const advice = "Leave the model as the run has it, or update speedtronic if you did not change it";
  requireSameModel(ours, { fingerprint, where: `fingerprint.json of ${title}` }, advice);
  const version = head && `version ${head.record.outerStep} in ${title}`;
  requireSameModel(ours, { fingerprint: head?.facts.fingerprint, where: version ?? title }, advice);
  return config;
}

/** `runs/NAME`, by the last part of the repository's name. */
export function defaultOutputDir(repo: string): string {
  const name = repo.split(/[\\/:]/).findLast((part) => /[A-Za-z0-9]/.test(part)) ?? "run";
  return join("runs", name.replace(/[^A-Za-z0-9._-]/g, "-"));
}

/** The data can be read. Undefined for random tokens. @throws DataError. */
export async function measureText(
  config: SpeedtronicConfig,
): Promise<{ readonly path: string; readonly tokens: number } | undefined> {
  const { text_path: path } = config.data;
  if (path === null) return undefined;
  const text = await openTextFile({ path, memoryLimitBytes: 0 });
  // The byte-level tokenizer's ids are the bytes.
  const tokens = text.length;
  await text.close();
  return { path, tokens };
}

/** The id of this node, which its state folder keeps. */
export async function nodeIdOf({ run, distributed }: SpeedtronicConfig): Promise<string> {
  return distributed.node_id ?? (await persistentNodeId(join(run.output_dir, distributed.state_dir)));
}

/** Whether this node has trained before and goes on. */
export async function hasCheckpoint({ run, checkpoint }: SpeedtronicConfig): Promise<boolean> {
  if (!checkpoint.enabled) return false;
  const { directory: name, keep_last: keepLast } = checkpoint;
  const directory = isAbsolute(name) ? name : join(run.output_dir, name);
  if (!existsSync(directory)) return false;
  return (await new CheckpointStore({ directory, keepLast, runId: randomUUID() }).list()).length > 0;
}
