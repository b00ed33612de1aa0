// The loss curve of plain PyTorch at the demo's size, run again here: same weights, same tokens, warm-up, clipping,
// decay groups and two microbatches an update. The expected numbers come from interop/make_golden_curve.py.

import { readFileSync } from "node:fs";
import { trainFromConfig } from "speedtronic";
import type { Dataset, Sample } from "speedtronic/data";
import { ReferenceTransformer } from "speedtronic/nn";
import { expect } from "vitest";
import { bookFile, recordEvents, temporaryFolder } from "./helpers.js";

interface Curve {
  readonly model: Readonly<Record<string, number>> & { readonly tie_weights: boolean };
  readonly train: Readonly<Record<string, number>>;
  readonly micro_batch_size: number;
  readonly accumulation_steps: number;
  readonly steps: number;
  readonly weights: {
    readonly tensors: readonly {
      readonly name: string;
      readonly shape: readonly number[];
      readonly sum: number;
      readonly sum_of_squares: number;
      readonly first: readonly number[];
    }[];
  };
  readonly lrs: readonly number[];
  readonly float32: { readonly losses: readonly number[]; readonly grad_norms: readonly number[] };
}

const curve = JSON.parse(
  readFileSync(new URL("../fixtures/golden-curve/golden-curve.json", import.meta.url), "utf8"),
) as Curve;

/** MurmurHash3's finaliser, see the file's own formula. */
function mix(x: number): number {
  x = Math.imul(x ^ (x >>> 16), 0x85ebca6b);
  x = Math.imul(x ^ (x >>> 13), 0xc2b2ae35);
  return (x ^ (x >>> 16)) >>> 0;
}

/** Normal values of tensor `t`; ones for vectors. */
function fillWeights(data: Float32Array, t: number, rank: number): void {
  const seed = mix(t + 1);
  for (let i = 0; i < data.length; i++) {
    const u1 = (mix(mix(2 * i) ^ seed) + 0.5) / 2 ** 32;
    const u2 = (mix(mix(2 * i + 1) ^ seed) + 0.5) / 2 ** 32;
    data[i] = rank === 1 ? 1 : 0.02 * Math.sqrt(-2 * Math.log(u1)) * Math.cos(2 * Math.PI * u2);
  }
}

/** Sequence i: bytes [128 i, 128 i + 128) with the byte after each as its label. */
class Book implements Dataset {
  readonly length: number;
  readonly #bytes = readFileSync(bookFile);

  constructor(private readonly blockSize: number) {
    this.length = Math.floor((this.#bytes.length - 1) / blockSize);
  }

  get(index: number): Sample {
    const start = index * this.blockSize;
    const ids = Int32Array.from(this.#bytes.subarray(start, start + this.blockSize + 1));
    return { inputIds: ids.subarray(0, this.blockSize), labels: ids.subarray(1) };
  }

  describe() {
    return { kind: "golden curve", blockSize: this.blockSize };
  }
}

/** Largest |a / b − 1|. */
const worst = (actual: readonly number[], expected: readonly number[]) =>
  Math.max(...expected.map((value, i) => Math.abs(actual[i]! / value - 1)));

/** Largest relative distance from PyTorch's float32 losses and gradient norms over the first `updates`. */
export async function followGoldenCurve(updates = curve.steps): Promise<{ loss: number; gradNorm: number }> {
  const { model: m, train: t } = curve;
  const model = new ReferenceTransformer({
    vocabSize: m.vocab_size!,
    blockSize: m.block_size!,
    nLayer: m.n_layer!,
    nHead: m.n_head!,
    nKvHead: m.n_kv_head!,
    dModel: m.d_model!,
    dFf: m.d_ff!,
    tieWeights: m.tie_weights,
    ropeBase: m.rope_base!,
  });
  const parameters = [...model.namedParameters()];
  expect(parameters.map(([name, { shape }]) => [name, shape])).toEqual(
    curve.weights.tensors.map(({ name, shape }) => [name, shape]),
  );
  for (const [i, [, { data, rank }]] of parameters.entries()) {
    fillWeights(data, i, rank);
    const { sum, sum_of_squares, first } = curve.weights.tensors[i]!;
    expect(Array.from(data.subarray(0, 4))).toEqual(first);
    expect(data.reduce((total, x) => total + x, 0)).toBeCloseTo(sum, 6);
    expect(data.reduce((total, x) => total + x * x, 0) / sum_of_squares).toBeCloseTo(1, 10);
  }

  const events = recordEvents();
  await trainFromConfig(
    {
      run: { max_steps: updates, output_dir: temporaryFolder() },
      model: {
        vocab_size: m.vocab_size!,
        max_seq_len: m.block_size!,
        n_layer: m.n_layer!,
        n_head: m.n_head!,
        d_model: m.d_model!,
        d_ff: m.d_ff!,
      },
      data: {
        micro_batch_size: curve.micro_batch_size,
        target_batch_size: curve.micro_batch_size * curve.accumulation_steps,
      },
      optimizer: {
        lr: t.lr!,
        betas: [t.beta1!, t.beta2!],
        eps: t.eps!,
        weight_decay: t.weight_decay!,
        grad_clip: t.grad_clip!,
      },
      scheduler: {
        warmup_steps: t.warmup_steps!,
        max_steps: t.schedule_steps!,
        min_lr_ratio: t.min_lr_ratio!,
      },
      // PyTorch's curve was made with these end points.
      compat: { schedule_endpoints: true },
      checkpoint: { enabled: false },
    },
    { model, dataset: new Book(m.block_size!), hooks: [events.hook] },
  );
  const steps = events.of("train_step");
  expect(steps.map(({ target_tokens }) => target_tokens)).toEqual(new Array(updates).fill(2048));
  expect(
    worst(
      steps.map(({ lr }) => lr),
      curve.lrs.slice(0, updates),
    ),
  ).toBeLessThan(1e-12);
  return {
    loss: worst(
      steps.map(({ loss }) => loss),
      curve.float32.losses.slice(0, updates),
    ),
    gradNorm: worst(
      steps.map(({ grad_norm }) => grad_norm!),
      curve.float32.grad_norms.slice(0, updates),
    ),
  };
}
