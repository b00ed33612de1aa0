// Files as sources read them: by range, wherever they lie. A local file and one of a hub are the same from here on.

/** A file that is known to exist; nothing is open yet. */
export interface SourceFile {
  /** For messages and for its extension: the path as the user named it, or the address. No secrets. */
  readonly name: string;
  readonly sizeBytes: number;
  /** Equal for equal bytes within one host. May read the whole file. */
  contentHash(): Promise<string>;
  open(): Promise<OpenFile>;
}

export interface OpenFile {
  readonly sizeBytes: number;
  /** The bytes [start, end), all of them. Throws DataError. */
  read(start: number, end: number): Promise<Uint8Array>;
  close(): Promise<void>;
}

/** Where files come from that are named by an address, such as `hf://datasets/org/name`. */
export interface RemoteFiles {
  /** Whether this place understands the address. */
  handles(address: string): boolean;
  /** The files of an address, sorted by path. Throws DataError if there are none. */
  list(address: string): Promise<readonly SourceFile[]>;
}

/** How many bytes are read at a time where a whole file is gone through. No result depends on it. */
export const defaultChunkBytes = 2 ** 20;

/** All bytes of the file, from the first to the last. Closes it, also when the loop ends early. */
export async function* byteChunks(
  file: SourceFile,
  chunkBytes: number,
): AsyncGenerator<Uint8Array, void, undefined> {
  const open = await file.open();
  try {
    for (let start = 0; start < open.sizeBytes; start += chunkBytes)
      yield await open.read(start, Math.min(start + chunkBytes, open.sizeBytes));
  } finally {
    await open.close();
  }
}
