// Node only. Runs chunks through one of Node's decompressors.

import { pipeline, Readable, type Transform } from "node:stream";
import { DataError, SpeedtronicError } from "../../util/errors.js";

export type { Transform };

/** Ends the reading of `chunks` when the loop ends. Throws DataError for damaged data. */
export async function* throughStream(
  chunks: AsyncIterable<Uint8Array>,
  transform: Transform,
  name: string,
): AsyncGenerator<Uint8Array, void, undefined> {
  let failure: unknown;
  pipeline(Readable.from(chunks, { objectMode: true, highWaterMark: 1 }), transform, (error) => {
    failure ??= error;
  });
  try {
    for await (const chunk of transform) yield chunk as Uint8Array;
  } catch (cause) {
    const first = failure ?? cause;
    if (first instanceof SpeedtronicError) throw first;
    const message = first instanceof Error ? first.message : String(first);
    throw new DataError(`${name} cannot be decompressed: ${message}. Get the file again.`, {
      code: "data.damaged",
      details: { file: name },
      cause: first,
    });
  }
}
