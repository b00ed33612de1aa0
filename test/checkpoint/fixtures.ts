// Small deterministic training states, temporary directories and comparisons for the checkpoint tests.

import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { onTestFinished } from "vitest";

import type { CheckpointContent } from "../../src/checkpoint/index.js";
import type { TensorData } from "../../src/tensor/dtype.js";
import { stateAt } from "./state.js";

export { stateAt };

export async function temporaryFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "speedtronic-checkpoint-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  return folder;
}

/** Content as plain data in one order, floats as bits, so that `toEqual` compares whole states bit for bit. */
export function comparable(content: CheckpointContent): unknown {
  return { ...content, model: bits(content.model), optimizer: bits(content.optimizer) };
}

function bits(tensors: ReadonlyMap<string, TensorData>): unknown {
  return [...tensors]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([name, { dtype, shape, data }]) => {
      const bytes = Buffer.from(data.buffer, data.byteOffset, data.byteLength);
      return [name, dtype, [...shape], data.constructor.name, bytes.toString("base64")];
    });
}
