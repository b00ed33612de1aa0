// Values that follow from other values. Null in a file means "follow"; after `deriveValues` the followed value is
// filled in. The horizon of the schedule is the exception: it follows the end of the run, which an option can move
// later, so it stays null and is asked for through `scheduleHorizon`.

import type { SpeedtronicConfig } from "./schema.js";

/**
 * Fills in derived values in place. Values that failed their check are undefined here and stay so.
 *
 * @param isSet whether somebody wrote a value other than null for a canonical path
 */
export function deriveValues(config: SpeedtronicConfig, isSet: (path: string) => boolean): void {
  const { run, model, data, logging, distributed, evaluation, sampling } = config;

  // A run with a name has a folder of its own.
  if (!isSet("run.output_dir") && isSet("run.name") && run.name !== undefined)
    run.output_dir = `${run.output_dir}/${folderName(run.name)}`;

  if (model.n_kv_head === null) model.n_kv_head = model.n_head;
  if (model.d_ff === null && model.mlp_width === null) model.d_ff = 4 * model.d_model;

  if (data.block_size === null) data.block_size = model.max_seq_len;
  if (data.vocab_size === null) data.vocab_size = model.vocab_size;
  if (data.seed === null) data.seed = run.seed;
  if (!isSet("data.target_batch_size")) data.target_batch_size = data.micro_batch_size;

  if (evaluation.batch_size === null) evaluation.batch_size = data.micro_batch_size;
  if (sampling.seed === null) sampling.seed = run.seed;

  if (run.log_every && !isSet("logging.every_steps")) logging.every_steps = run.log_every;

  // One owner: the root key. The model's own key counts only where the root says nothing.
  const recompute = isSet("gradient_checkpointing")
    ? config.gradient_checkpointing
    : model.gradient_checkpointing;
  config.gradient_checkpointing = recompute;
  model.gradient_checkpointing = recompute;

  if (distributed.enabled && distributed.role === "single" && distributed.repo_id)
    distributed.role = "master";
}

/** A name as one part of a path, on machines of every kind. */
function folderName(name: string): string {
  const plain = name
    .trim()
    .replace(/[^A-Za-z0-9._-]+/g, "-")
    .replace(/^\.+|\.+$/g, "");
  return plain === "" ? "run" : plain;
}

/** Micro-batches per optimizer step. */
export function accumulationSteps(config: Pick<SpeedtronicConfig, "data">): number {
  return config.data.target_batch_size / config.data.micro_batch_size;
}

/** The optimizer step at which the run ends. */
export function effectiveMaxSteps(config: Pick<SpeedtronicConfig, "run" | "data">): number {
  return config.data.max_steps ?? config.run.max_steps;
}

/** The optimizer step at which the learning rate has decayed. */
export function scheduleHorizon(config: Pick<SpeedtronicConfig, "run" | "data" | "scheduler">): number {
  return config.scheduler.max_steps ?? effectiveMaxSteps(config);
}

/** Micro-batches to read ahead of training: `prefetch_factor` (2 if null) for each worker, of which there is at least one. */
export function prefetchBatches(config: Pick<SpeedtronicConfig, "data">): number {
  return (config.data.prefetch_factor ?? 2) * Math.max(1, config.data.num_workers);
}
