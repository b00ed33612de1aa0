// Section `model`: the shape of the model. The registered names live in the model registry, which needs the
// tensor engine; a name is therefore checked when the model is built, not here.

import { defineSection, field, flag, mapping, orNull, real, text, whole } from "../field.js";

const REFERENCE_NAMES = new Set(["reference_transformer", "gpt"]);

function divisorsOf(value: number): number[] {
  return Array.from({ length: value }, (_, index) => index + 1).filter((divisor) => value % divisor === 0);
}

/** The divisors of `value` nearest to `wanted`, at most three, ascending. */
function nearestDivisors(value: number, wanted: number): string {
  const nearest = divisorsOf(value).sort((a, b) => Math.abs(a - wanted) - Math.abs(b - wanted));
  return nearest
    .slice(0, 3)
    .sort((a, b) => a - b)
    .join(", ");
}

/** The multiples of `step` on both sides of `value`. */
function neighbouringMultiples(value: number, step: number): string {
  const below = Math.floor(value / step) * step;
  return below > 0 ? `${below} or ${below + step}` : `${below + step}`;
}

export const model = defineSection({
  name: "model",
  summary: "Which model, and its shape.",
  shape: {
    name: field(text(), "reference_transformer", "Name of a registered model."),
    vocab_size: field(whole({ min: 1 }), 512, "Number of token ids."),
    max_seq_len: field(whole({ min: 1 }), 128, "Longest context in tokens."),
    n_layer: field(whole({ min: 1 }), 4, "Number of transformer blocks."),
    n_head: field(whole({ min: 1 }), 8, "Number of attention heads."),
    n_kv_head: field(
      orNull(whole({ min: 1 })),
      null,
      "Number of key and value heads, a divisor of n_head; null means n_head.",
    ),
    d_model: field(whole({ min: 1 }), 256, "Width of the residual stream, a multiple of n_head."),
    d_ff: field(
      orNull(whole({ min: 1 })),
      null,
      "Nominal MLP width; two thirds of it, rounded up to a multiple of n_head, are built. Null means 4 * d_model.",
    ),
    dropout: field(real({ min: 0, below: 1 }), 0, "Probability of dropping an activation in training."),
    tie_weights: field(flag(), true, "Whether the output layer shares the embedding's weights."),
    rope_base: field(real({ above: 0 }), 10000, "Base of the rotary position frequencies."),
    gradient_checkpointing: field(
      flag(),
      false,
      "Follows the root key gradient_checkpointing unless only this one is set.",
    ),
    mlp_width: field(
      orNull(whole({ min: 1 })),
      null,
      "Exact inner width of the MLP, instead of the rounding rule of d_ff.",
    ),
    scaled_init: field(
      flag(),
      false,
      "Start what writes to the residual stream smaller, by 1/√(2 · n_layer).",
    ),
    extra: field(
      mapping(),
      {},
      "Settings that only the named model has, such as norm_eps and qkv_bias of llama; checked when it is built.",
    ),
  },
  checks: [
    {
      at: "n_head",
      needs: ["n_head", "d_model", "extra"],
      test: ({ n_head, d_model, extra }) =>
        // Heads with a width of their own need not fill the model's.
        d_model % n_head === 0 || typeof extra.head_dim === "number"
          ? undefined
          : `${n_head} heads do not divide d_model ${d_model}; n_head could be ${nearestDivisors(d_model, n_head)}, or d_model ${neighbouringMultiples(d_model, n_head)}`,
    },
    {
      at: "n_kv_head",
      needs: ["n_head", "n_kv_head"],
      test: ({ n_head, n_kv_head }) =>
        n_kv_head === null || n_head % n_kv_head === 0
          ? undefined
          : `${n_kv_head} key and value heads do not divide n_head ${n_head}; use one of ${divisorsOf(n_head).join(", ")}`,
    },
    {
      at: "d_model",
      needs: ["name", "n_head", "d_model"],
      test: ({ name, n_head, d_model }) =>
        REFERENCE_NAMES.has(name) && d_model % n_head === 0 && (d_model / n_head) % 2 === 1
          ? `${d_model} / ${n_head} heads gives the odd head width ${d_model / n_head}, which rotary positions cannot split in halves; d_model could be ${neighbouringMultiples(d_model, 2 * n_head)}`
          : undefined,
    },
    {
      at: "d_ff",
      needs: ["name", "d_ff", "mlp_width"],
      test: ({ name, d_ff, mlp_width }) =>
        REFERENCE_NAMES.has(name) && mlp_width === null && d_ff === 1
          ? "two thirds of 1 round to an MLP of width 0; use at least 2, or set mlp_width"
          : undefined,
    },
    {
      at: "mlp_width",
      needs: ["d_ff", "mlp_width"],
      test: ({ d_ff, mlp_width }) =>
        d_ff !== null && mlp_width !== null
          ? `both d_ff (${d_ff}) and mlp_width (${mlp_width}) are set; keep one of them`
          : undefined,
    },
  ],
});
