// Files for the outer benchmark: weights, momentum and deltas of one model, float32, from a seeded generator. Made once
// per run of the benchmark, in a folder that is removed afterwards.

import { statfsSync } from "node:fs";
import { join } from "node:path";
import { saveDeltaFile } from "../src/distributed/wire/index.node.js";
import { saveSafetensorsFile, type TensorStream } from "../src/formats/safetensors/index.node.js";

export interface OuterModel {
  readonly name: string;
  readonly tensors: readonly { readonly name: string; readonly shape: readonly number[] }[];
}

/** Paths of the files; each has the same tensors. */
export interface OuterFiles {
  readonly state: string;
  readonly momentum: string;
  readonly deltas: readonly string[];
  /** Of the weights. */
  readonly sizeBytes: number;
}

/** A GPT-2 with these sizes. The names and shapes of the model as it is published; the head is tied. */
export function gpt2(
  name: string,
  vocab: number,
  context: number,
  width: number,
  layers: number,
): OuterModel {
  const norm = (prefix: string) => [
    { name: `${prefix}.weight`, shape: [width] },
    { name: `${prefix}.bias`, shape: [width] },
  ];
  const linear = (prefix: string, inputs: number, outputs: number) => [
    { name: `${prefix}.weight`, shape: [inputs, outputs] },
    { name: `${prefix}.bias`, shape: [outputs] },
  ];
  const tensors = [
    { name: "wte.weight", shape: [vocab, width] },
    { name: "wpe.weight", shape: [context, width] },
    ...Array.from({ length: layers }, (_, i) => [
      ...norm(`h.${i}.ln_1`),
      ...linear(`h.${i}.attn.c_attn`, width, 3 * width),
      ...linear(`h.${i}.attn.c_proj`, width, width),
      ...norm(`h.${i}.ln_2`),
      ...linear(`h.${i}.mlp.c_fc`, width, 4 * width),
      ...linear(`h.${i}.mlp.c_proj`, 4 * width, width),
    ]).flat(),
    ...norm("ln_f"),
  ];
  return { name, tensors };
}

/** 124,439,808 parameters. */
export const gpt2Small = gpt2("GPT-2 small", 50_257, 1024, 768, 12);
/** For trying the benchmark: the numbers mean nothing. */
export const gpt2Tiny = gpt2("a small GPT-2", 5000, 256, 256, 4);

export function parameterCount({ tensors }: OuterModel): number {
  return tensors.reduce((sum, { shape }) => sum + elements(shape), 0);
}

/** @throws Error when the folder's disk has less than `wantedBytes` free. */
export function requireSpace(folder: string, wantedBytes: number): void {
  const { bavail, bsize } = statfsSync(folder);
  const free = bavail * bsize;
  if (free >= wantedBytes) return;
  const gb = (bytes: number) => `${(bytes / 1e9).toFixed(1)} GB`;
  throw new Error(
    `${folder} has ${gb(free)} free, the files of this benchmark take ${gb(wantedBytes)}: free some space, name another disk with --folder, or try the small model with --quick`,
  );
}

/** Writes all files; the last ones read stay in the system's page cache. */
export async function writeOuterFiles(
  folder: string,
  model: OuterModel,
  deltas: number,
): Promise<OuterFiles> {
  const state = join(folder, "state.safetensors");
  const momentum = join(folder, "momentum.safetensors");
  const sizeBytes = await saveSafetensorsFile(state, streams(model, 1, 0.02), {}, { durable: false });
  await saveSafetensorsFile(momentum, streams(model, 2, 1e-3), {}, { durable: false });
  const paths: string[] = [];
  for (let i = 0; i < deltas; i++) {
    const path = join(folder, `delta-${i}.safetensors`);
    const header = { nodeId: `node-${i}`, localStep: 100 + i, baseOuterStep: 0 };
    await saveDeltaFile(path, streams(model, 3 + i, 1e-3), header, { durable: false });
    paths.push(path);
  }
  return { state, momentum, deltas: paths, sizeBytes };
}

const PIECE_ELEMENTS = 2 ** 20;

function streams({ tensors }: OuterModel, seed: number, size: number): TensorStream[] {
  return tensors.map(({ name, shape }, index) => ({
    name,
    dtype: "F32",
    shape,
    data: () => pieces(elements(shape), Math.imul(seed, 0x9e3779b1) + index, size),
  }));
}

/** Numbers between -size and size. */
function* pieces(count: number, seed: number, size: number): Generator<Uint8Array> {
  const scale = size / 2 ** 31;
  // Zero is where xorshift stays for ever.
  let x = Math.imul(seed, 0x85ebca6b) | 1;
  for (let begin = 0; begin < count; begin += PIECE_ELEMENTS) {
    const values = new Float32Array(Math.min(PIECE_ELEMENTS, count - begin));
    for (let i = 0; i < values.length; i++) {
      x ^= x << 13;
      x ^= x >>> 17;
      x ^= x << 5;
      values[i] = x * scale;
    }
    yield new Uint8Array(values.buffer);
  }
}

const elements = (shape: readonly number[]) => shape.reduce((product, size) => product * size, 1);
