// Node only. What the end of a file's name says about how it is packed, and the bytes that are in it.

import { createGunzip } from "node:zlib";
import { byteChunks, type SourceFile } from "./source-file.js";
import { throughStream } from "./through-stream.js";
import { unzstd } from "./zstd.js";

type Packing = "gzip" | "zstd" | undefined;

function packingOf(name: string): Packing {
  if (/\.gz$/i.test(name)) return "gzip";
  return /\.zst$/i.test(name) ? "zstd" : undefined;
}

/** The name without what tells its packing: `a.txt.gz` is a text. */
export function unpackedName(name: string): string {
  return name.replace(/\.(?:gz|zst)$/i, "");
}

/** The content of a file in chunks of any size, decompressed if its name ends in .gz or .zst. */
export async function* unpackedChunks(
  file: SourceFile,
  chunkBytes: number,
): AsyncGenerator<Uint8Array, void, undefined> {
  const packing = packingOf(file.name);
  const chunks = byteChunks(file, chunkBytes);
  if (packing === undefined) yield* chunks;
  // An empty file is no archive of nothing, but nothing can be lost by taking it so.
  else if (file.sizeBytes === 0) return;
  else if (packing === "gzip") yield* throughStream(chunks, createGunzip({ chunkSize: 2 ** 18 }), file.name);
  else yield* unzstd(chunks, file.name);
}
