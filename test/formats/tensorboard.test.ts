// TensorBoard's event files, byte by byte: checksums against published values, records and messages by a reader that
// shares nothing with the writer.

import { describe, expect, it } from "vitest";
import { crc32c, maskedCrc32c } from "../../src/formats/tensorboard/crc32c.js";
import {
  encodeFileHead,
  encodeHistogram,
  encodeRestart,
  encodeScalars,
  encodeText,
} from "../../src/formats/tensorboard/index.js";
import { messageOf, readRecords } from "./tensorboard-reader.js";

const place = { wallTime: 1_700_000_000.5, step: 7 };
const bytesOf = (text: string) => new TextEncoder().encode(text);

describe("CRC-32C", () => {
  it("has the published values", () => {
    // RFC 3720, appendix B.4, and the check value of the algorithm's catalogue entry.
    expect(crc32c(bytesOf("123456789"))).toBe(0xe3069283);
    expect(crc32c(new Uint8Array(32))).toBe(0x8a9136aa);
    expect(crc32c(new Uint8Array(32).fill(0xff))).toBe(0x62a8ab43);
    expect(crc32c(Uint8Array.from({ length: 32 }, (_, i) => i))).toBe(0x46dd794e);
    expect(crc32c(new Uint8Array(0))).toBe(0);
  });

  it("is masked by a rotation and a constant, in 32 bits", () => {
    expect(maskedCrc32c(new Uint8Array(0))).toBe(0xa282ead8);
    // 0xe3069283 rotated right by 15 is 0x2507c60d.
    expect(maskedCrc32c(bytesOf("123456789"))).toBe(0x2507c60d + 0xa282ead8);
  });
});

describe("event files", () => {
  it("begin with the version of the format", () => {
    const [record] = readRecords(encodeFileHead(1));
    const bytes = [0x09, 0, 0, 0, 0, 0, 0, 0xf0, 0x3f, 0x1a, 13, ...bytesOf("brain.Event:2")];
    expect([...record!]).toEqual(bytes);
  });

  it("hold several scalars of a step in one record", () => {
    const scalars = new Map([
      ["train/loss", 2.5],
      ["train/lr", 0],
      ["train/broken", Number.NaN],
    ]);
    const [record] = readRecords(encodeScalars(place, scalars));
    const event = messageOf(record!);
    expect(event.double(1)).toBe(1_700_000_000.5);
    expect(event.integer(2)).toBe(7);
    const values = event.messages(5)[0]!.messages(1);
    expect(values.map((value) => [value.text(1), value.float(2)])).toEqual([
      ["train/loss", 2.5],
      ["train/lr", 0],
      ["train/broken", Number.NaN],
    ]);
  });

  it("hold text for the text plugin", () => {
    const [record] = readRecords(encodeText(place, "sample", "Wal größer"));
    const value = messageOf(record!).messages(5)[0]!.messages(1)[0]!;
    const tensor = value.messages(8)[0]!;
    expect(value.text(1)).toBe("sample");
    expect(value.messages(9)[0]!.messages(1)[0]!.text(1)).toBe("text");
    expect(tensor.integer(1)).toBe(7);
    expect(tensor.messages(2)[0]!.messages(2)[0]!.integer(1)).toBe(1);
    expect(tensor.text(8)).toBe("Wal größer");
  });

  it("mark a restart, so that readers drop the steps done again", () => {
    const [record] = readRecords(encodeRestart(place));
    const event = messageOf(record!);
    expect(event.integer(2)).toBe(7);
    expect(event.messages(7)[0]!.integer(1)).toBe(1);
  });

  it("hold histograms whose buckets cover every finite value once", () => {
    const values = [-3, -1e-30, 0, 0.5, 0.5, 2, 1e30, Number.NaN, Number.POSITIVE_INFINITY];
    const [record] = readRecords(encodeHistogram(place, "weights", values));
    const histogram = messageOf(record!).messages(5)[0]!.messages(1)[0]!.messages(5)[0]!;
    const limits = histogram.doubles(6);
    const counts = histogram.doubles(7);
    expect(histogram.double(3)).toBe(7);
    expect(counts.reduce((sum, count) => sum + count)).toBe(7);
    expect(limits).toHaveLength(counts.length);
    expect([...limits].sort((a, b) => a - b)).toEqual(limits);
    const at = limits.findIndex((limit) => limit >= 0.5);
    expect(counts[at]).toBe(2);
    expect(limits[at]! / 0.5).toBeLessThan(1.1);
  });

  it("refuse nothing: an empty histogram is one empty bucket", () => {
    const [record] = readRecords(encodeHistogram(place, "none", []));
    const histogram = messageOf(record!).messages(5)[0]!.messages(1)[0]!.messages(5)[0]!;
    expect([histogram.double(3), histogram.doubles(6), histogram.doubles(7)]).toEqual([0, [0], [0]]);
  });
});
