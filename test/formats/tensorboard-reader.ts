// A reader of record files and of protobuf's wire form, for tests: written from the descriptions of both, without a
// schema, so that it shares no mistake with the writer. Checks every checksum.

import { crc32c } from "../../src/formats/tensorboard/crc32c.js";

const unmask = (masked: number): number => {
  const rotated = (masked - 0xa282ead8) >>> 0;
  return ((rotated << 15) | (rotated >>> 17)) >>> 0;
};

/** The data of each record; throws where a file is broken. */
export function readRecords(file: Uint8Array): Uint8Array[] {
  const view = new DataView(file.buffer, file.byteOffset, file.byteLength);
  const records: Uint8Array[] = [];
  for (let at = 0; at < file.length; ) {
    const length = Number(view.getBigUint64(at, true));
    const data = file.subarray(at + 12, at + 12 + length);
    if (unmask(view.getUint32(at + 8, true)) !== crc32c(file.subarray(at, at + 8)))
      throw new Error(`bad checksum of the length at ${at}`);
    if (unmask(view.getUint32(at + 12 + length, true)) !== crc32c(data))
      throw new Error(`bad checksum of the data at ${at}`);
    records.push(data);
    at += 16 + length;
  }
  return records;
}

export interface Message {
  double(field: number): number;
  float(field: number): number;
  integer(field: number): number;
  text(field: number): string | undefined;
  doubles(field: number): number[];
  messages(field: number): Message[];
}

export function messageOf(bytes: Uint8Array): Message {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const fields = new Map<number, Uint8Array[]>();
  let at = 0;
  const varint = (): number => {
    let value = 0;
    for (let shift = 0; ; shift += 7) {
      const byte = view.getUint8(at++);
      value += (byte & 0x7f) * 2 ** shift;
      if (byte < 0x80) return value;
    }
  };
  while (at < bytes.length) {
    const key = varint();
    const start = at;
    const kind = key & 7;
    let [from, to] = [start, start];
    if (kind === 0) {
      varint();
      to = at;
    } else if (kind === 2) {
      const length = varint();
      from = at;
      to = at + length;
    } else to = start + (kind === 1 ? 8 : 4);
    at = to;
    const field = Math.floor(key / 8);
    fields.set(field, [...(fields.get(field) ?? []), bytes.subarray(from, to)]);
  }
  const first = (field: number): Uint8Array | undefined => fields.get(field)?.[0];
  const doublesOf = (part: Uint8Array): number[] =>
    Array.from({ length: part.length / 8 }, (_, i) =>
      new DataView(part.buffer, part.byteOffset + 8 * i, 8).getFloat64(0, true),
    );
  return {
    double: (field) => doublesOf(first(field) ?? new Uint8Array(8))[0]!,
    float: (field) => {
      const part = first(field)!;
      return new DataView(part.buffer, part.byteOffset, 4).getFloat32(0, true);
    },
    integer: (field) =>
      (first(field) ?? new Uint8Array(1)).reduce((sum, byte, i) => sum + (byte & 0x7f) * 2 ** (7 * i), 0),
    text: (field) => first(field) && new TextDecoder().decode(first(field)),
    doubles: (field) => (fields.get(field) ?? []).flatMap(doublesOf),
    messages: (field) => (fields.get(field) ?? []).map(messageOf),
  };
}
