// Shared by the data tests: temporary text files, and batches as plain values that compare whole.

import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { onTestFinished } from "vitest";
import type { DataLoader, Dataset, LoadedBatch, Sample } from "../../src/data/index.js";

export async function temporaryFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "speedtronic-data-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  return folder;
}

export async function temporaryText(content: string | Uint8Array): Promise<string> {
  const path = join(await temporaryFolder(), "text.txt");
  await writeFile(path, content);
  return path;
}

/** Rows of the named tensor, for reading in assertions. */
export function rowsOf(loaded: LoadedBatch, name: string): number[][] | undefined {
  const tensor = loaded.batch[name];
  if (tensor === undefined) return undefined;
  const [rows, width] = tensor.shape as [number, number];
  return Array.from({ length: rows }, (_, row) => [...tensor.data.subarray(row * width, (row + 1) * width)]);
}

export async function take(loader: DataLoader, count: number): Promise<LoadedBatch[]> {
  const batches: LoadedBatch[] = [];
  for (let i = 0; i < count; i++) batches.push(await loader.next());
  return batches;
}

export async function samplesOf(dataset: Dataset): Promise<{ inputIds: number[]; labels: number[] }[]> {
  const samples = [];
  for (let i = 0; i < dataset.length; i++) {
    const { inputIds, labels } = await dataset.get(i);
    samples.push({ inputIds: [...inputIds], labels: [...labels] });
  }
  return samples;
}

/** Sample `i` is the single id `i`, so that a batch shows which samples it holds. */
export function numberedDataset(length: number, get?: (index: number) => Promise<void> | void): Dataset {
  return {
    length,
    get: async (index): Promise<Sample> => {
      await get?.(index);
      return { inputIds: Int32Array.of(index), labels: Int32Array.of(index) };
    },
    describe: () => ({ kind: "numbered", samples: length }),
  };
}

export const letters = "abcdefghijklmnopqrstuvwxyz";

export function bytesOf(text: string): number[] {
  return [...new TextEncoder().encode(text)];
}
