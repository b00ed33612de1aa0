// What a valid configuration may ask for and this build cannot give. `validate` accepts such a file; training
// refuses it by name, or says what a key amounts to here. Whoever builds a feature deletes its rows.

import { ConfigError } from "../util/errors.js";
import { isKnownName } from "../util/known-names.js";
import { prefetchBatches } from "./derived.js";
import { describeValue } from "./problem.js";
import { resolveConfig } from "./resolve.js";
import type { OptimizerConfig, SpeedtronicConfig } from "./schema.js";

export interface Unsupported {
  /** Canonical key path. */
  readonly path: string;
  readonly value: unknown;
  /** Why it is refused, or what it amounts to. */
  readonly reason: string;
  /** What to do; empty for notices that ask for nothing. */
  readonly action: string;
}

export interface UnsupportedReport {
  /** Training must not start. */
  readonly refusals: readonly Unsupported[];
  /** Training starts; the start event carries these. */
  readonly notices: readonly Unsupported[];
}

/** What a program hands over besides the configuration. */
export interface Given {
  /** Samples of its own, which take the place of text and synthetic data. */
  readonly hasDataset?: boolean;
  /** Samples of its own for the validation loss, instead of a held-out part. */
  readonly hasValidation?: boolean;
  /** A curve of its own for the learning rate. */
  readonly hasSchedule?: boolean;
  /** A model with weights of its own, instead of the one that the configuration names. */
  readonly hasModel?: boolean;
  /** The model recomputes activations by itself when asked to. */
  readonly hasRecomputation?: boolean;
}

interface Rule {
  readonly kind: "refusal" | "notice";
  readonly path: string;
  applies(config: SpeedtronicConfig, given: Given): boolean;
  readonly reason: string | ((config: SpeedtronicConfig) => string);
  readonly action: string;
}

const refusals: readonly Rule[] = [
  {
    kind: "refusal",
    path: "run.device",
    applies: ({ run }) => !["auto", "cpu"].includes(run.device.trim().toLowerCase()),
    reason: "only the device cpu exists here",
    action: 'use "cpu", or "auto", which means the same',
  },
  {
    kind: "refusal",
    path: "gradient_checkpointing",
    applies: ({ gradient_checkpointing }, { hasRecomputation }) =>
      gradient_checkpointing && !hasRecomputation,
    reason:
      "recomputing activations is not built yet, and the model has no setGradientCheckpointing of its own",
    action: "set it to false, and lower data.micro_batch_size if memory is short",
  },
  {
    kind: "refusal",
    path: "data.dataset",
    applies: ({ data }) =>
      data.dataset !== null && data.text_path === null && !isKnownName("dataset", data.dataset),
    reason: "loading a stored dataset is not built yet, and pickled ones never will be, since they run code",
    action: "name a text file with data.text_path",
  },
  {
    kind: "refusal",
    path: "data.validation_fraction",
    applies: ({ data }, { hasDataset, hasValidation }) =>
      data.validation_fraction > 0 &&
      data.text_path === null &&
      !(data.dataset !== null && isKnownName("dataset", data.dataset)) &&
      data.sources === null &&
      !hasDataset &&
      !hasValidation,
    reason: "only a text can be split, and there is nothing to learn from held-out random tokens",
    action: "set it to 0, or name a text file with data.text_path",
  },
  {
    kind: "refusal",
    path: "data.validation_fraction",
    applies: ({ data }, { hasValidation }) => data.validation_fraction > 0 && hasValidation === true,
    reason: "samples for the validation loss are handed over as well",
    action: "keep one of the two",
  },
  {
    kind: "refusal",
    path: "evaluation.every_steps",
    applies: ({ evaluation, data }, { hasValidation }) =>
      evaluation.every_steps !== null && data.validation_fraction === 0 && !hasValidation,
    reason: "there is nothing to evaluate on",
    action: "hold out a part of the text with data.validation_fraction, such as 0.05",
  },
  {
    kind: "refusal",
    path: "lora.base",
    applies: ({ lora }, { hasModel }) => lora.rank !== null && lora.base === null && !hasModel,
    reason: "adapters to random weights learn nothing, and no trained ones are named",
    action: "name a run, a checkpoint or a safetensors file, or set lora.rank to null",
  },
  {
    kind: "refusal",
    path: "lora.rank",
    applies: ({ lora, distributed }) => lora.rank !== null && distributed.enabled,
    reason: "adapters are trained on one machine only",
    action: "set it to null, or set distributed.enabled to false",
  },
];

/** Keys of one optimizer, which say nothing to the others. */
const ownKeys = {
  muon: [
    "muon_momentum",
    "muon_ns_steps",
    "muon_norm_eps",
    "muon_plus_mode",
    "muon_lr",
    "muon_weight_decay",
    "muon_scale",
    "muon_routes",
  ],
  sgd: ["sgd_momentum", "sgd_nesterov"],
} as const satisfies Partial<Record<OptimizerConfig["name"], readonly (keyof OptimizerConfig)[]>>;

const notices: readonly Rule[] = [
  {
    kind: "notice",
    path: "compile",
    applies: (config) => config.compile,
    reason: "the training graph is always compiled; the key changes nothing",
    action: "",
  },
  {
    kind: "notice",
    path: "ooo_backprop",
    applies: ({ ooo_backprop }) => ooo_backprop,
    reason: "not engaged: a CPU has no streams to schedule; results are the same",
    action: "",
  },
  {
    kind: "notice",
    path: "optimizer.fused",
    applies: ({ optimizer }) => optimizer.fused === false,
    reason: "the update always runs as one fused kernel; results are the same",
    action: "",
  },
  {
    kind: "notice",
    path: "data.pin_memory",
    applies: ({ data }) => data.pin_memory === true,
    reason: "not engaged: there is no GPU to copy to",
    action: "",
  },
  {
    kind: "notice",
    path: "data.num_workers",
    applies: ({ data }) => data.num_workers > 1,
    reason: (config) =>
      (config.data.sources === null ? "" : `${config.data.num_workers} threads tokenise the sources; then `) +
      `one reader prepares the data, ${prefetchBatches(config)} micro-batches ahead; the order does not depend on it`,
    action: "",
  },
  {
    kind: "notice",
    path: "data.dataset",
    applies: ({ data }) => data.dataset !== null && data.text_path !== null,
    reason: "not used: data.text_path comes first",
    action: "remove one of the two",
  },
  ...Object.entries(ownKeys).flatMap(([owner, keys]) =>
    keys.map(
      (key): Rule => ({
        kind: "notice",
        path: `optimizer.${key}`,
        applies: ({ optimizer }) =>
          optimizer.name !== owner &&
          JSON.stringify(optimizer[key]) !== JSON.stringify(defaultOptimizer()[key]),
        reason: `not used: it belongs to the optimizer "${owner}"`,
        action: "remove it",
      }),
    ),
  ),
  ...(["decay_steps", "decay_shape"] as const).map(
    (key): Rule => ({
      kind: "notice",
      path: `scheduler.${key}`,
      applies: ({ scheduler }) =>
        scheduler.name !== "wsd" && scheduler[key] !== defaultConfig().scheduler[key],
      reason: 'not used: it belongs to the schedule "wsd"',
      action: "remove it",
    }),
  ),
  {
    kind: "notice",
    path: "scheduler",
    applies: ({ scheduler }, { hasSchedule }) =>
      hasSchedule === true && JSON.stringify(scheduler) !== JSON.stringify(defaultConfig().scheduler),
    reason: "not used: the program hands over a schedule of its own",
    action: "",
  },
  {
    kind: "notice",
    path: "distributed",
    applies: ({ distributed }) => {
      const { enabled, ...rest } = distributed;
      const { enabled: _, ...defaults } = defaultConfig().distributed;
      return !enabled && JSON.stringify(rest) !== JSON.stringify(defaults);
    },
    reason: "not used: distributed.enabled is false",
    action: "",
  },
  {
    kind: "notice",
    path: "distributed.collaborators",
    applies: ({ distributed }) => distributed.enabled && distributed.collaborators.length > 0,
    reason: "not used: no hub has a call that gives accounts access",
    action: "give them access in the settings of the repository or of its organization",
  },
  ...(["async_delta_upload", "async_global_poll"] as const).map(
    (key): Rule => ({
      kind: "notice",
      path: `distributed.${key}`,
      applies: ({ distributed }) => distributed.enabled && !distributed[key],
      reason: "not engaged: a node always sends and fetches while training goes on",
      action: "",
    }),
  ),
  {
    kind: "notice",
    path: "lora",
    applies: ({ lora }) =>
      lora.rank === null && JSON.stringify(lora) !== JSON.stringify(defaultConfig().lora),
    reason: "not used: lora.rank is null",
    action: "",
  },
  {
    kind: "notice",
    path: "sampling",
    applies: ({ sampling }) => {
      const { every_steps, at_end, seed: _, ...rest } = sampling;
      const { every_steps: _e, at_end: _a, seed: _s, ...defaults } = defaultConfig().sampling;
      return every_steps === null && !at_end && JSON.stringify(rest) !== JSON.stringify(defaults);
    },
    reason: "not used: neither sampling.every_steps nor sampling.at_end is set",
    action: "",
  },
];

let cachedDefault: SpeedtronicConfig | undefined;

function defaultConfig(): SpeedtronicConfig {
  cachedDefault ??= resolveConfig({});
  return cachedDefault;
}

function defaultOptimizer(): OptimizerConfig {
  return defaultConfig().optimizer;
}

function valueAt(config: SpeedtronicConfig, path: string): unknown {
  return path.split(".").reduce<unknown>((value, key) => (value as Record<string, unknown>)[key], config);
}

/** What training cannot do as asked, and what it does otherwise than the file may suggest. */
export function collectUnsupported(config: SpeedtronicConfig, given: Given = {}): UnsupportedReport {
  const found = (rules: readonly Rule[]): Unsupported[] =>
    rules
      .filter((rule) => rule.applies(config, given))
      .map(({ path, reason, action }) => ({
        path,
        value: valueAt(config, path),
        reason: typeof reason === "string" ? reason : reason(config),
        action,
      }));
  return { refusals: found(refusals), notices: found(notices) };
}

/** `optimizer.name is "muon": Muon is not built yet; use "adamw"` */
export function formatUnsupported({ path, value, reason, action }: Unsupported): string {
  const subject = typeof value === "object" && value !== null ? path : `${path} is ${shown(value)}`;
  return `${subject}: ${reason}${action === "" ? "" : `; ${action}`}`;
}

function shown(value: unknown): string {
  return typeof value === "string" ? JSON.stringify(value) : describeValue(value);
}

/** @throws ConfigError naming every refusal */
export function refuseUnsupported(config: SpeedtronicConfig, given: Given = {}): void {
  const { refusals: found } = collectUnsupported(config, given);
  if (found.length === 0) return;
  const lines = found.map(formatUnsupported);
  const message =
    lines.length === 1
      ? `this configuration cannot be trained here: ${lines[0]}`
      : `this configuration cannot be trained here, for ${lines.length} reasons\n${lines.map((line) => `  ${line}`).join("\n")}`;
  throw new ConfigError(message, { code: "config.unsupported", details: { refusals: found } });
}
