// A second reader of safetensors for the auditor, which must not share the mistakes of the first. Float32 and int32 only.

export interface PlainFile {
  readonly metadata: Readonly<Record<string, string>>;
  readonly floats: ReadonlyMap<string, Float32Array>;
  readonly integers: ReadonlyMap<string, Int32Array>;
}

export function readPlainFile(bytes: Uint8Array): PlainFile {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const headerSize = Number(view.getBigUint64(0, true));
  const header = JSON.parse(new TextDecoder().decode(bytes.subarray(8, 8 + headerSize))) as Record<
    string,
    { readonly dtype: string; readonly data_offsets: readonly [number, number] }
  >;
  const { __metadata__: metadata = {}, ...entries } = header as Record<string, unknown>;
  const floats = new Map<string, Float32Array>();
  const integers = new Map<string, Int32Array>();
  for (const name of Object.keys(entries).sort()) {
    const { dtype, data_offsets: place } = header[name]!;
    const content = bytes.slice(8 + headerSize + place[0], 8 + headerSize + place[1]).buffer;
    if (dtype === "F32") floats.set(name, new Float32Array(content));
    else if (dtype === "I32") integers.set(name, new Int32Array(content));
    else throw new Error(`${name} is ${dtype}`);
  }
  return { metadata: metadata as Record<string, string>, floats, integers };
}

export function isFiniteFile({ floats }: PlainFile): boolean {
  return [...floats.values()].every((values) => values.every(Number.isFinite));
}
