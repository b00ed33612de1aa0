// What of a run cannot be seen in its tensors and yet decides what they mean: stored with every checkpoint, compared
// before a resume. One description for runs and for imported checkpoints, so that the two compare. Compares nothing.

import type { TrainableModel } from "../nn/contract.js";
import type { SpeedtronicConfig } from "./schema.js";

export interface FingerprintParts {
  /** What the configuration builds; null where nothing here can build it: its sizes are left out then. */
  readonly model: TrainableModel | null;
  readonly tokenizer: {
    readonly kind: "byte" | "custom";
    readonly vocabSize: number;
    readonly sha256?: string;
  };
  /** What the data are told by; null where nobody knows them: the part stays empty, and is not compared. */
  readonly data: Readonly<Record<string, unknown>> | null;
}

/** The shape of a checkpoint's fingerprint, part by part. */
export interface ConfigFingerprint {
  readonly model: Record<string, unknown>;
  readonly data: Record<string, unknown>;
  readonly optimizer: Record<string, unknown>;
  readonly distributed: Record<string, unknown>;
}

export function configFingerprint(
  config: SpeedtronicConfig,
  { model, tokenizer, data }: FingerprintParts,
): ConfigFingerprint {
  const { micro_batch_size, target_batch_size, seed } = config.data;
  return {
    model: modelFingerprint(config, model, tokenizer),
    data: data === null ? {} : { ...data, micro_batch_size, target_batch_size, seed },
    optimizer: optimizerFingerprint(config),
    distributed: distributedFingerprint(config),
  };
}

/** Everything that changes what the tensors mean, and so cannot be seen in them. */
function modelFingerprint(
  config: SpeedtronicConfig,
  model: TrainableModel | null,
  tokenizer: FingerprintParts["tokenizer"],
): Record<string, unknown> {
  // How weights start says nothing of what they mean.
  const { gradient_checkpointing: _, scaled_init: __, extra, ...shape } = config.model;
  return {
    ...shape,
    // Left out while empty: checkpoints from before this key still fit.
    ...(Object.keys(extra).length > 0 && { extra }),
    ...(model !== null && {
      tensors: model.stateEntries().length,
      parameters: model.parameterCount(),
      tied: tiedNames(model),
    }),
    dtype: "float32",
    layout: "whole tensors, row-major",
    tokenizer: {
      kind: tokenizer.kind,
      vocab_size: tokenizer.vocabSize,
      ...(tokenizer.sha256 !== undefined && { sha256: tokenizer.sha256 }),
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
  const { name, warmup_steps, min_lr_ratio, max_steps, decay_steps, decay_shape } = scheduler;
  const own = name === "wsd" ? { decay_steps, decay_shape } : {};
  return { name, warmup_steps, min_lr_ratio, max_steps, python_endpoints: compat.schedule_endpoints, ...own };
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
    ...ruleFingerprint(config),
    decay_all_tensors: config.compat.decay_all_tensors,
    schedule: scheduleFingerprint(config),
  };
}

/** What else the rule goes by. Nothing for plain AdamW: its checkpoints from before these keys still fit. */
function ruleFingerprint({ optimizer, compat }: SpeedtronicConfig): Record<string, unknown> {
  const { name, cautious, cautious_rescale } = optimizer;
  const own = Object.entries(optimizer).filter(([key]) => key.startsWith(`${name}_`));
  return {
    ...Object.fromEntries(own),
    ...(cautious && { cautious, cautious_rescale, cautious_decay: compat.cautious_decay }),
  };
}
