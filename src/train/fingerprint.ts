// What of a run cannot be seen in its tensors and yet decides what they mean: stored with every checkpoint, compared
// before a resume. Compares nothing itself.

import type { Fingerprint } from "../checkpoint/content.js";
import type { SpeedtronicConfig } from "../config/schema.js";
import type { DataPipeline } from "../data/build-dataloader.js";
import { ByteTokenizer } from "../data/byte-tokenizer.js";
import type { Tokenizer } from "../data/types.js";
import type { TrainableModel } from "../nn/contract.js";

export function runFingerprint(
  config: SpeedtronicConfig,
  model: TrainableModel,
  data: DataPipeline,
): Fingerprint {
  const { micro_batch_size, target_batch_size, seed } = config.data;
  return {
    model: modelFingerprint(config, model, data.tokenizer),
    data: { ...data.fingerprint, micro_batch_size, target_batch_size, seed },
    optimizer: optimizerFingerprint(config),
    distributed: distributedFingerprint(config),
  };
}

/** Everything that changes what the tensors mean, and so cannot be seen in them. */
function modelFingerprint(
  config: SpeedtronicConfig,
  model: TrainableModel,
  tokenizer: Tokenizer,
): Record<string, unknown> {
  const { gradient_checkpointing: _, extra, ...shape } = config.model;
  return {
    ...shape,
    // Left out while empty: checkpoints from before this key still fit.
    ...(Object.keys(extra).length > 0 && { extra }),
    tensors: model.stateEntries().length,
    parameters: model.parameterCount(),
    tied: tiedNames(model),
    dtype: "float32",
    layout: "whole tensors, row-major",
    tokenizer: {
      kind: tokenizer instanceof ByteTokenizer ? "byte" : "custom",
      vocab_size: tokenizer.vocabSize,
    },
  };
}

/** `a = b` for every further name of a tensor that has several. */
function tiedNames(model: TrainableModel): string[] {
  const firstNames = new Map<object, string>();
  const tied: string[] = [];
  for (const { name, owner } of model.stateEntries()) {
    const first = firstNames.get(owner);
    if (first === undefined) firstNames.set(owner, name);
    else tied.push(`${name} = ${first}`);
  }
  return tied;
}

/** Who this node is to others: a checkpoint of a worker must not be continued by its master. */
function distributedFingerprint({ distributed }: SpeedtronicConfig): Record<string, unknown> {
  if (!distributed.enabled) return { enabled: false };
  const { enabled, mode, role, node_id, repo_id } = distributed;
  return { enabled, mode, role, node_id, repo_id };
}

/** The curve of the learning rate. Where it ends is left out if it follows the run's own target, which may move. */
function scheduleFingerprint({ scheduler, compat }: SpeedtronicConfig): Record<string, unknown> {
  const { name, warmup_steps, min_lr_ratio, max_steps } = scheduler;
  return { name, warmup_steps, min_lr_ratio, max_steps, python_endpoints: compat.schedule_endpoints };
}

function optimizerFingerprint(config: SpeedtronicConfig): Record<string, unknown> {
  const { name, lr, betas, eps, weight_decay, grad_clip } = config.optimizer;
  return {
    name,
    lr,
    betas,
    eps,
    weight_decay,
    grad_clip,
    decay_all_tensors: config.compat.decay_all_tensors,
    schedule: scheduleFingerprint(config),
  };
}
