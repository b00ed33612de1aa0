// The shape of a transformer as its factory gets it, its defaults and its rules. Where the config's snake_case
// section turns into these names, too.

import { ModelError } from "../../util/errors.js";
import { requireRate, requireSize } from "../layers/sizes.js";
import { suggestion } from "../near-miss.js";

/** What every registered factory receives, whether it needs it or not. */
export interface ModelOptions {
  readonly vocabSize: number;
  /** Longest context in tokens. */
  readonly blockSize: number;
  readonly nLayer: number;
  readonly nHead: number;
  /** A divisor of nHead; null means nHead. */
  readonly nKvHead: number | null;
  readonly dModel: number;
  /** Nominal MLP width; see {@link mlpWidthOf}. Null means 4 · dModel. */
  readonly dFf: number | null;
  readonly dropout: number;
  readonly tieWeights: boolean;
  readonly ropeBase: number;
  /** The MLP's width itself, instead of the rule; null follows the rule. */
  readonly mlpWidth: number | null;
  /** Compatibility: a second dropout on the attention branch. */
  readonly doubleDropout: boolean;
  /** Start projections into the residual stream smaller, by 1/√(2 · nLayer). */
  readonly residualScaledInit: boolean;
  /** Settings that only this model has, under the names of the config's `model.extra`; see `readExtra`. */
  readonly extra: Readonly<Record<string, unknown>>;
}

export const defaultModelOptions: ModelOptions = {
  vocabSize: 512,
  blockSize: 128,
  nLayer: 4,
  nHead: 8,
  nKvHead: null,
  dModel: 256,
  dFf: null,
  dropout: 0,
  tieWeights: true,
  ropeBase: 10000,
  mlpWidth: null,
  doubleDropout: false,
  residualScaledInit: false,
  extra: {},
};

/** The config section `model` as far as it shapes a model. */
export interface ModelSection {
  readonly vocab_size: number;
  readonly max_seq_len: number;
  readonly n_layer: number;
  readonly n_head: number;
  readonly n_kv_head: number | null;
  readonly d_model: number;
  readonly d_ff: number | null;
  readonly dropout: number;
  readonly tie_weights: boolean;
  readonly rope_base: number;
  readonly mlp_width?: number | null;
  readonly scaled_init?: boolean;
  readonly extra?: Readonly<Record<string, unknown>>;
}

export function modelOptionsFromConfig(
  section: ModelSection,
  compat: { double_dropout?: boolean } = {},
): ModelOptions {
  return {
    ...defaultModelOptions,
    vocabSize: section.vocab_size,
    blockSize: section.max_seq_len,
    nLayer: section.n_layer,
    nHead: section.n_head,
    nKvHead: section.n_kv_head,
    dModel: section.d_model,
    dFf: section.d_ff,
    dropout: section.dropout,
    tieWeights: section.tie_weights,
    ropeBase: section.rope_base,
    mlpWidth: section.mlp_width ?? null,
    doubleDropout: compat.double_dropout ?? false,
    residualScaledInit: section.scaled_init ?? false,
    extra: section.extra ?? {},
  };
}

/** `given` over the defaults. Throws ModelError for unknown options and values out of range. */
export function resolveModelOptions(given: Partial<ModelOptions>): ModelOptions {
  const known = Object.keys(defaultModelOptions);
  for (const key of Object.keys(given))
    if (!known.includes(key))
      throw new ModelError(
        `unknown model option "${key}"${suggestion(key, known)}; known: ${known.join(", ")}`,
        {
          code: "model.unknown_option",
          details: { key },
        },
      );
  const options = { ...defaultModelOptions, ...given };
  for (const key of ["vocabSize", "blockSize", "nLayer", "nHead", "dModel"] as const)
    requireSize("model", key, options[key]);
  for (const key of ["nKvHead", "dFf", "mlpWidth"] as const)
    if (options[key] !== null) requireSize("model", key, options[key]);
  requireRate("model", options.dropout);
  return options;
}

/**
 * Width of the gated MLP: `mlpWidth` if given, else two thirds of dFf, truncated, then rounded up to a multiple
 * of the number of heads. Throws ModelError where that is 0.
 */
export function mlpWidthOf({ mlpWidth, dFf, dModel, nHead }: ModelOptions): number {
  if (mlpWidth !== null) return mlpWidth;
  const nominal = dFf ?? 4 * dModel;
  const width = Math.ceil(Math.trunc(nominal * (2 / 3)) / nHead) * nHead;
  if (width === 0)
    throw new ModelError(`dFf ${nominal} gives an MLP of width 0: use at least 2, or set mlpWidth`, {
      code: "model.mlp_width",
      details: { dFf: nominal },
    });
  return width;
}
