// The fingerprint that a run of a configuration has, for a checkpoint that no run of this library has written. It
// must say the same as the trainer's own: a resume compares the two.

import type { Fingerprint } from "../../checkpoint/content.js";
import type { SpeedtronicConfig } from "../../config/index.js";
import { ByteTokenizer } from "../../data/byte-tokenizer.js";
import type { TrainableModel } from "../../nn/contract.js";
import { modelOptionsFromConfig } from "../../nn/models/options.js";
import { buildModel, modelNames } from "../../nn/models/registry.js";

/** Without the model's sizes where no model of that name is registered. The data are not compared. */
export function fingerprintOf(config: SpeedtronicConfig): Fingerprint {
  const { gradient_checkpointing: _, extra, ...shape } = config.model;
  const { name, lr, betas, eps, weight_decay, grad_clip } = config.optimizer;
  const { decay_all_tensors } = config.compat;
  const { enabled, mode, role, node_id, repo_id } = config.distributed;
  return {
    model: {
      ...shape,
      ...(Object.keys(extra).length > 0 && { extra }),
      ...sizesOf(config),
      dtype: "float32",
      layout: "whole tensors, row-major",
      tokenizer: { kind: "byte", vocab_size: tokenizerSize(config) },
    },
    distributed: enabled ? { enabled, mode, role, node_id, repo_id } : { enabled },
    data: {},
    optimizer: { name, lr, betas, eps, weight_decay, grad_clip, decay_all_tensors },
  };
}

function sizesOf({ model, compat }: SpeedtronicConfig): Record<string, unknown> {
  if (!modelNames().includes(model.name)) return {};
  const built = buildModel({ name: model.name, ...modelOptionsFromConfig(model, compat) });
  return { tensors: built.stateDict().size, parameters: built.parameterCount(), tied: tiedNames(built) };
}

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

function tokenizerSize({ model }: SpeedtronicConfig): number {
  return new ByteTokenizer({ vocabSize: model.vocab_size }).vocabSize;
}
