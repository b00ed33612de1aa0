// Advice on sizes that suit the CPU: which are no multiple of its vectors, what the next valid one is, once for each
// distinct size. Advice only; whether a size costs time here, a measurement says (`speedtronic doctor`).

import type { SpeedtronicConfig } from "../config/schema.js";
import type { TrainableModel } from "../nn/contract.js";
import { AdaptableLayer } from "../nn/layers/adapter.js";
import { Embedding } from "../nn/layers/embedding.js";
import { mlpWidthOf, modelOptionsFromConfig } from "../nn/models/options.js";
import type { MetricLogger } from "../observe/metric-logger.js";

export interface ShapeAdvice {
  readonly code: "batch_alignment" | "sequence_alignment" | "model_alignment" | "vocab_alignment";
  /** The key that sets the size, or the first layer that has it. */
  readonly field: string;
  readonly value: number;
  /** Fits all rules of the configuration; null where no such size is near. */
  readonly suggested: number | null;
  readonly reason: string;
  /** Layers with this size. */
  readonly layers?: number;
}

export interface ShapeReport {
  /** Null: nothing was checked. */
  readonly alignment: number | null;
  readonly advice: readonly ShapeAdvice[];
}

/** Values of float32 in the widest vectors of today's CPUs, and in a line of their caches. */
const cpuAlignment = 16;

export function adviseShapes(config: SpeedtronicConfig, model: TrainableModel): ShapeReport {
  const { enabled, alignment: asked, warn_on_cpu, ...checks } = config.shape_validation;
  if (!enabled || !warn_on_cpu || asked === "none") return { alignment: null, advice: [] };
  const alignment = asked === "auto" ? cpuAlignment : asked;
  const advice = [
    ...(checks.check_batch ? batchAdvice(config, alignment) : []),
    ...(checks.check_sequence ? sequenceAdvice(config, alignment) : []),
    ...widthAdvice(config, model, alignment, checks),
  ];
  return { alignment, advice };
}

/** The advice as events of a run that starts. */
export function reportShapes(
  logger: MetricLogger,
  config: SpeedtronicConfig,
  model: TrainableModel,
): ShapeReport {
  const report = adviseShapes(config, model);
  const { alignment, advice } = report;
  if (alignment === null) return report;
  for (const one of advice) logger.emit("shape_warning", { ...one, alignment });
  logger.emit("shape_profile", {
    device_type: "cpu",
    precision: "fp32",
    alignment,
    warning_count: advice.length,
  });
  return report;
}

const why = (alignment: number): string =>
  `rows that are no multiple of ${alignment} end in values that are computed one by one; speedtronic doctor measures an update`;

/** A micro-batch must divide the target batch, so only its divisors are sizes to suggest. */
function batchAdvice({ data }: SpeedtronicConfig, alignment: number): ShapeAdvice[] {
  const { micro_batch_size: value, target_batch_size: target } = data;
  if (value % alignment === 0) return [];
  const fits = (size: number) => size % alignment === 0 && target % size === 0;
  const suggested = nearest(value, target, fits);
  const reason =
    suggested === null
      ? `no multiple of ${alignment} divides data.target_batch_size ${target}, so there is nothing to change here alone`
      : why(alignment);
  return [{ code: "batch_alignment", field: "data.micro_batch_size", value, suggested, reason }];
}

function sequenceAdvice({ data, model }: SpeedtronicConfig, alignment: number): ShapeAdvice[] {
  const { block_size: value } = data;
  if (value % alignment === 0) return [];
  const suggested = nearest(value, model.max_seq_len, (size) => size % alignment === 0);
  const reason =
    suggested === null
      ? `no multiple of ${alignment} fits model.max_seq_len ${model.max_seq_len}`
      : why(alignment);
  return [{ code: "sequence_alignment", field: "data.block_size", value, suggested, reason }];
}

/** The valid size from `value` to `most` that is nearest above, else nearest below. */
function nearest(value: number, most: number, fits: (size: number) => boolean): number | null {
  for (let size = value; size <= most; size++) if (fits(size)) return size;
  for (let size = value - 1; size > 0; size--) if (fits(size)) return size;
  return null;
}

function widthAdvice(
  config: SpeedtronicConfig,
  model: TrainableModel,
  alignment: number,
  { check_model, check_vocab }: { readonly check_model: boolean; readonly check_vocab: boolean },
): ShapeAdvice[] {
  const { vocab_size: vocab, d_model, n_head } = config.model;
  const mlp = mlpWidth(config);
  return [...widths(model)].flatMap(([value, layers]): ShapeAdvice[] => {
    if (value % alignment === 0) return [];
    const own = { value, layers: layers.length, reason: why(alignment) };
    const next = (step: number) => Math.ceil(value / step) * step;
    if (value === vocab)
      return check_vocab
        ? [{ ...own, code: "vocab_alignment", field: "model.vocab_size", suggested: next(alignment) }]
        : [];
    if (!check_model) return [];
    // Heads share the width evenly, and rotary positions halve each share.
    if (value === d_model)
      return [
        {
          ...own,
          code: "model_alignment",
          field: "model.d_model",
          suggested: next(lcm(alignment, 2 * n_head)),
        },
      ];
    const field = value === mlp ? "model.mlp_width" : layers[0]!;
    return [{ ...own, code: "model_alignment", field, suggested: next(alignment) }];
  });
}

/** Every distinct size of the model's matrices, with the layers that have it. */
function widths(model: TrainableModel): Map<number, string[]> {
  const found = new Map<number, string[]>();
  for (const [name, module] of model.namedModules()) {
    if (!(module instanceof AdaptableLayer || module instanceof Embedding)) continue;
    for (const size of new Set(module.weight.shape)) found.set(size, [...(found.get(size) ?? []), name]);
  }
  return found;
}

function mlpWidth({ model, compat }: SpeedtronicConfig): number | undefined {
  try {
    return mlpWidthOf(modelOptionsFromConfig(model, compat));
  } catch {
    // Other models need not have one.
    return undefined;
  }
}

function lcm(a: number, b: number): number {
  let [x, y] = [a, b];
  while (y !== 0) [x, y] = [y, x % y];
  return (a / x) * b;
}
