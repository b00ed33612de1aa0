// The checkpoint folder of a run: locked, swept, and searched for what to resume from.

import { randomUUID } from "node:crypto";
import { isAbsolute, join } from "node:path";

import { type OpenedCheckpoint, openCheckpoint } from "../checkpoint/load.js";
import type { Lock } from "../checkpoint/lock.js";
import { CheckpointStore } from "../checkpoint/store.js";
import type { SpeedtronicConfig } from "../config/schema.js";
import { CheckpointError, ConfigError } from "../util/errors.js";

/** `true`: the newest good checkpoint, which must exist; `auto`: it, or a fresh start; `{ path }`: that one. */
export type Resume = boolean | "auto" | { readonly path: string };

/** Opens and locks the checkpoint folder and finds what to resume from. */
export async function openCheckpoints(
  config: SpeedtronicConfig,
  resume: Resume,
  closers: (() => Promise<unknown> | unknown)[],
  onWarning: (message: string, details: Readonly<Record<string, unknown>>) => void,
): Promise<{ store: CheckpointStore | undefined; loaded: OpenedCheckpoint | undefined; runId: string }> {
  const { checkpoint, run } = config;
  const freshId = randomUUID();
  if (!checkpoint.enabled) {
    if (resume !== false && resume !== "auto")
      throw new ConfigError("cannot resume: checkpoint.enabled is false", { code: "train.resume" });
    return { store: undefined, loaded: undefined, runId: freshId };
  }
  const directory = isAbsolute(checkpoint.directory)
    ? checkpoint.directory
    : join(run.output_dir, checkpoint.directory);
  const { keep_last: keepLast, keep_best: keepBest, keep_every: keepEvery } = checkpoint;
  const store = new CheckpointStore({ directory, keepLast, keepBest, keepEvery, runId: freshId, onWarning });
  const lock: Lock = await store.lock();
  closers.push(() => lock.release());
  await store.sweep();
  const loaded = await findCheckpoint(store, resume, onWarning);
  if (loaded) closers.push(() => loaded.content.close());
  return { store, loaded, runId: loaded?.info.runId ?? freshId };
}

async function findCheckpoint(
  store: CheckpointStore,
  resume: Resume,
  onWarning: (message: string, details: Readonly<Record<string, unknown>>) => void,
): Promise<OpenedCheckpoint | undefined> {
  if (resume === false) {
    const { length } = await store.list();
    const earlier = `${length} ${length === 1 ? "checkpoint" : "checkpoints"} of earlier runs`;
    if (length > 0)
      onWarning(
        `${store.directory} holds ${earlier}, which stay there; --resume would go on from the newest`,
        {
          directory: store.directory,
        },
      );
    return undefined;
  }
  if (typeof resume === "object") {
    const loaded = await openCheckpoint(resume.path);
    for (const { path, reason } of loaded.skipped)
      onWarning(`passed over ${path}: ${reason}`, { path, reason });
    return loaded;
  }
  const loaded = await store.openNewestGood();
  if (loaded) return loaded;
  if (resume === true)
    throw new CheckpointError(
      `there is no checkpoint to resume in ${store.directory}: check the output folder, or use --resume auto to start fresh`,
      { code: "checkpoint.nothing_to_resume", details: { directory: store.directory } },
    );
  onWarning("resume requested but no local checkpoint was found: starting fresh", {
    directory: store.directory,
  });
  return undefined;
}
