// Node only. Decompression of zstd: by Node itself where it can (22.15 and newer), which streams, else by a WebAssembly
// build, which decodes frame by frame. Whoever reads sees one row of chunks either way.

import * as zlib from "node:zlib";
import { DataError } from "../../util/errors.js";
import { type Transform, throughStream } from "./through-stream.js";
import { zstdFrames } from "./zstd-frames.js";

/** What is used of the package; loaded when a file needs it. */
interface ZstdModule {
  init(): Promise<void>;
  compress(bytes: Uint8Array, level: number): Uint8Array;
  decompress(bytes: Uint8Array, options: { defaultHeapSize: number }): Uint8Array;
}

/** Decoded at once, input and output both in memory. */
const frameLimitBytes = 2 ** 29;

export interface ZstdOptions {
  /** Default: whatever this Node has. */
  readonly createStream?: (() => Transform) | undefined;
}

export function unzstd(
  chunks: AsyncIterable<Uint8Array>,
  name: string,
  options: ZstdOptions = { createStream: nodeZstd() },
): AsyncIterable<Uint8Array> {
  const { createStream } = options;
  return createStream === undefined ? byFrames(chunks, name) : throughStream(chunks, createStream(), name);
}

/** The types of Node 20 do not know it. */
function nodeZstd(): (() => Transform) | undefined {
  const { createZstdDecompress } = zlib as { readonly createZstdDecompress?: () => Transform };
  return createZstdDecompress;
}

let loading: Promise<ZstdModule> | undefined;

/** Once per process: to initialise the package again takes its memory away from whoever uses it. */
export function loadZstd(): Promise<ZstdModule> {
  loading ??= load();
  return loading;
}

async function load(): Promise<ZstdModule> {
  const found = (await import("@bokuweb/zstd-wasm")) as unknown as ZstdModule & { default?: ZstdModule };
  const module = found.default ?? found;
  await module.init();
  return module;
}

async function* byFrames(
  chunks: AsyncIterable<Uint8Array>,
  name: string,
): AsyncGenerator<Uint8Array, void, undefined> {
  const zstd = await loadZstd();
  for await (const { bytes, contentBytes } of zstdFrames(chunks, name, frameLimitBytes)) {
    if (contentBytes === 0) continue;
    try {
      yield zstd.decompress(bytes, { defaultHeapSize: contentBytes });
    } catch (cause) {
      throw new DataError(`${name} cannot be decompressed: a zstd frame is damaged. Get the file again.`, {
        code: "data.damaged",
        details: { file: name },
        cause,
      });
    }
  }
}
