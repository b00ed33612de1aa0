// What the tests of Hugging Face folders share, here and in interop/: the committed folders, what transformers
// computed for them, and what a model here computes.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

import type { LanguageModel } from "../../src/nn/index.js";
import { constant, evaluate, type Tensor } from "../../src/tensor/index.js";

export const fixtures = fileURLToPath(new URL("../fixtures/huggingface/", import.meta.url));

export interface Expected {
  readonly input_ids: number[][];
  readonly attention_mask: number[][] | null;
  readonly logits: number[][][];
}

export function readExpected(folder: string): Expected {
  return JSON.parse(readFileSync(join(folder, "expected.json"), "utf8")) as Expected;
}

/** Logits [B][T][V] by the reference backend. */
export function logitsOf(
  model: LanguageModel,
  ids: readonly (readonly number[])[],
  mask: readonly (readonly number[])[] | null = null,
): number[][][] {
  const { logits } = model.forward({ input_ids: int32(ids), ...(mask && { attention_mask: int32(mask) }) });
  const [, T, V] = logits!.shape as [number, number, number];
  const flat = Array.from(evaluate(logits!).data);
  return ids.map((_, b) =>
    Array.from({ length: T }, (_, t) => flat.slice((b * T + t) * V, (b * T + t + 1) * V)),
  );
}

/** The largest difference at the positions that the mask shows; infinite where the shapes differ. */
export function largestLogitDifference(
  found: readonly (readonly (readonly number[])[])[],
  { logits, attention_mask }: Pick<Expected, "logits" | "attention_mask">,
): number {
  let worst = found.length === logits.length ? 0 : Number.POSITIVE_INFINITY;
  for (const [b, rows] of logits.entries())
    for (const [t, row] of rows.entries())
      for (const [v, wanted] of row.entries()) {
        if (attention_mask?.[b]?.[t] === 0) continue;
        const difference = Math.abs((found[b]?.[t]?.[v] ?? Number.NaN) - wanted);
        worst = Math.max(worst, Number.isNaN(difference) ? Number.POSITIVE_INFINITY : difference);
      }
  return worst;
}

function int32(rows: readonly (readonly number[])[]): Tensor {
  return constant({
    dtype: "int32",
    shape: [rows.length, rows[0]!.length],
    data: Int32Array.from(rows.flat()),
  });
}
