// The record files of TensorFlow: each record is its length (8 bytes), the masked checksum of that length, the data,
// and the masked checksum of the data; all little-endian. Bytes in, bytes out.

import { maskedCrc32c } from "./crc32c.js";

const lengthBytes = 8;
const checksumBytes = 4;

/** One record around `data`. */
export function frameRecord(data: Uint8Array): Uint8Array {
  const record = new Uint8Array(lengthBytes + checksumBytes + data.length + checksumBytes);
  const view = new DataView(record.buffer);
  view.setBigUint64(0, BigInt(data.length), true);
  view.setUint32(lengthBytes, maskedCrc32c(record.subarray(0, lengthBytes)), true);
  record.set(data, lengthBytes + checksumBytes);
  view.setUint32(lengthBytes + checksumBytes + data.length, maskedCrc32c(data), true);
  return record;
}
