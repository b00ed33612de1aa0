// A part of a file as a body: as a stream, and over a socket past it. A stream needs new memory for every piece, whose
// collection costs more than all else that a large download does here.

import type { FileHandle } from "node:fs/promises";
import type { ServerResponse } from "node:http";

/** `[start, end)` of an open file. */
export interface FilePart {
  readonly handle: FileHandle;
  readonly start: number;
  readonly end: number;
}

const PIECE_BYTES = 2 ** 20;

/** Closes the file at the end, on failure, and when the reader leaves. */
export function streamFile({ handle, start, end }: FilePart): ReadableStream<Uint8Array> {
  let position = start;
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        try {
          const buffer = new Uint8Array(Math.min(PIECE_BYTES, end - position));
          const bytes = await readSome(handle, buffer, position);
          position += bytes;
          controller.enqueue(buffer.subarray(0, bytes));
          if (position < end) return;
          controller.close();
        } catch (error) {
          controller.error(error);
        }
        await handle.close();
      },
      async cancel() {
        await handle.close();
      },
    },
    { highWaterMark: 1 },
  );
}

/**
 * Writes the answer `head` with that body, and closes the file. Never rejects: what fails on the way breaks the connection
 * off, by which the client knows.
 */
export async function sendFile(outgoing: ServerResponse, head: Response, part: FilePart): Promise<void> {
  const { handle, start, end } = part;
  const hasLeft = new Promise<never>((_, reject) => {
    outgoing.once("close", () => reject(new Error("the client has left")));
  });
  hasLeft.catch(() => undefined);
  try {
    outgoing.writeHead(head.status, Object.fromEntries(head.headers));
    const size = Math.min(PIECE_BYTES, end - start);
    // One is filled while the other is under way.
    const buffers = [Buffer.allocUnsafeSlow(size), Buffer.allocUnsafeSlow(size)] as const;
    let sent: Promise<void> = Promise.resolve();
    for (let position = start, turn = 0; position < end; turn ^= 1) {
      const buffer = buffers[turn as 0 | 1];
      const bytes = await readSome(handle, buffer.subarray(0, end - position), position);
      position += bytes;
      await Promise.race([sent, hasLeft]);
      sent = write(outgoing, buffer.subarray(0, bytes));
      sent.catch(() => undefined);
    }
    await Promise.race([sent, hasLeft]);
    outgoing.end();
  } catch (error) {
    outgoing.destroy(error as Error);
  } finally {
    await handle.close();
  }
}

async function readSome(handle: FileHandle, buffer: Uint8Array, position: number): Promise<number> {
  const { bytesRead } = await handle.read(buffer, 0, buffer.byteLength, position);
  if (bytesRead === 0) throw new Error(`the file ends at ${position}`);
  return bytesRead;
}

/** Resolves once the socket has taken all of it: only then may the memory be used anew. */
function write(outgoing: ServerResponse, piece: Uint8Array): Promise<void> {
  return new Promise((resolve, reject) => {
    outgoing.write(piece, (error) => {
      if (error == null) resolve();
      else reject(error);
    });
  });
}
