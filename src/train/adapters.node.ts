// The weights under adapters: loaded from where `lora.base` says, at the start of a run, at its resume and for use
// later, since checkpoints hold the adapters alone. A hash in the checkpoint tells whether they are still the same.

import { createHash } from "node:crypto";

import { describeDifference, explainDifferences } from "../checkpoint/compare.js";
import { loadWeights } from "../checkpoint/load-weights.js";
import type { LoraConfig, SpeedtronicConfig } from "../config/schema.js";
import type { TrainableModel } from "../nn/contract.js";
import type { ExtraState } from "../nn/extra-state.js";
import { initializeLora, loraParameterNames } from "../nn/lora.js";
import { CheckpointError, ConfigError, ModelError } from "../util/errors.js";
import { openInitialWeights } from "./initial-weights.node.js";

/** Settings of a model that change what its weights mean and not their shapes. */
const decisive = ["n_head", "n_kv_head", "rope_base", "tie_weights", "extra"];

/**
 * Starts the adapters of `model` and loads the weights under them. Returns what a run with them is told by.
 * @throws ConfigError `lora.initial_weights`; as {@link loadAdapterBase}
 */
export async function startAdapters(
  model: TrainableModel,
  config: SpeedtronicConfig,
  { hasInitialWeights }: { readonly hasInitialWeights: boolean },
): Promise<Record<string, unknown>> {
  if (hasInitialWeights)
    throw new ConfigError(
      "initial weights and lora.rank are both given: name the weights under the adapters with lora.base instead",
      { code: "lora.initial_weights" },
    );
  const { lora, run } = config;
  initializeLora(model, run.seed);
  if (lora.base !== null) await loadAdapterBase(model, lora.base, config);
  return adapterFingerprint(model, lora);
}

/**
 * Loads the weights in `path` under the adapters of `model`, which stay as they are.
 * @throws CheckpointError of opening and `checkpoint.does_not_fit`; ModelError `lora.other_model`
 */
export async function loadAdapterBase(
  model: TrainableModel,
  path: string,
  config: SpeedtronicConfig,
): Promise<void> {
  const opened = await openInitialWeights(path);
  try {
    requireSameMeaning(opened.fingerprint, config, opened.path);
    await loadWeights(model, opened.source, { allowMissing: loraParameterNames(model) });
    if (opened.modules) model.loadExtraState(opened.modules as Record<string, ExtraState>);
  } catch (error) {
    if (!(error instanceof CheckpointError)) throw error;
    throw new CheckpointError(`lora.base ${opened.path}: ${error.message}`, {
      code: error.code,
      details: { path: opened.path, ...error.details },
      cause: error,
    });
  } finally {
    await opened.close();
  }
}

/** Weights without a description of their model are believed. */
function requireSameMeaning(
  saved: Readonly<Record<string, unknown>> | undefined,
  { model }: SpeedtronicConfig,
  path: string,
): void {
  if (saved === undefined) return;
  const pick = (from: Readonly<Record<string, unknown>>) =>
    Object.fromEntries(decisive.filter((key) => key in saved).map((key) => [key, from[key]]));
  const differences = explainDifferences(pick(saved), pick(model as unknown as Record<string, unknown>));
  if (differences.length === 0) return;
  throw new ModelError(
    `lora.base ${path} was trained as another model than the section model describes: ` +
      `${differences.map(describeDifference).join("; ")}. Set model as it was`,
    { code: "lora.other_model", details: { path, differences } },
  );
}

/** Names of the state that belongs to the weights under the adapters, buffers aside. */
export function baseNames(model: TrainableModel): Set<string> {
  const own = new Set(loraParameterNames(model));
  const owners = new Set([...model.namedParameters()].filter(([name]) => !own.has(name)).map(([, p]) => p));
  return new Set(
    model
      .stateEntries()
      .filter(({ owner }) => !("value" in owner) && owners.has(owner))
      .map(({ name }) => name),
  );
}

/** What a checkpoint of adapters says of them. A hash over names and bits of the weights under them. */
export function adapterFingerprint(model: TrainableModel, lora: LoraConfig): Record<string, unknown> {
  const { rank, alpha, targets } = lora;
  const own = new Set(loraParameterNames(model));
  const hash = createHash("sha256");
  for (const [name, { data }] of model.namedParameters()) {
    if (own.has(name)) continue;
    hash.update(`${name}\n`);
    hash.update(new Uint8Array(data.buffer, data.byteOffset, data.byteLength));
  }
  return { rank, alpha: alpha ?? rank, targets, base_sha256: hash.digest("hex") };
}
