// One version computed again from what it was made of, without writing it anywhere: only its hashes are wanted.

import {
  type ByteSink,
  openSafetensors,
  SafetensorsError,
  type SafetensorsReader,
} from "../../formats/safetensors/index.js";
import { type BufferPolicies, bufferRules } from "../wire/buffer-merge.js";
import { WireError } from "../wire/errors.js";
import { writeOuterStep } from "../wire/write-outer-step.js";
import type { PublishedVersion } from "./aggregator-history.js";
import type { Hasher, ScratchFile, Surroundings } from "./aggregator-surroundings.js";

export interface RoundFiles {
  readonly state: ScratchFile;
  /** Undefined for zeros. */
  readonly momentum: ScratchFile | undefined;
  /** In the order of the sum. */
  readonly deltas: readonly ScratchFile[];
}

export interface RoundHashes {
  readonly state: string;
  readonly momentum: string;
}

/** The hashes that the version's files must have, or why these files cannot have made any version. */
export async function hashRound(
  { lr, mu, usesPlainMean, deltas, parentOuterStep = -1 }: PublishedVersion,
  files: RoundFiles,
  { hasher, kernels }: Surroundings,
  policies?: BufferPolicies | undefined,
): Promise<RoundHashes | { readonly problem: string }> {
  const opened: SafetensorsReader[] = [];
  const open = async (file: ScratchFile) => {
    const reader = await openSafetensors(await file.open());
    opened.push(reader);
    return reader;
  };
  try {
    const state = await open(files.state);
    const momentum = files.momentum && (await open(files.momentum));
    const readers: SafetensorsReader[] = [];
    for (const delta of files.deltas) readers.push(await open(delta));
    const weights = usesPlainMean ? undefined : deltas.map(({ weight }) => weight);
    const buffers = bufferRules(policies, parentOuterStep, readers);
    const hashes = { state: hasher(), momentum: hasher() };
    await writeOuterStep(
      { state, momentum, deltas: readers, lr, mu, weights, kernels, buffers },
      { state: hashSink(hashes.state), momentum: hashSink(hashes.momentum) },
    );
    return { state: hashes.state.digest(), momentum: hashes.momentum.digest() };
  } catch (error) {
    if (!(error instanceof WireError || error instanceof SafetensorsError)) throw error;
    return { problem: error.message };
  } finally {
    for (const reader of opened) await reader.close();
  }
}

function hashSink(hash: Hasher): ByteSink {
  return { write: async (chunk) => hash.update(chunk) };
}
