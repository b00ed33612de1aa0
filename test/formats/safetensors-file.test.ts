// Files on disk and addresses on the web, through the same reader.

import { mkdtempSync, readdirSync, readFileSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { open } from "node:fs/promises";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";

import * as surface from "../../src/formats/safetensors/index.js";
import * as nodeSurface from "../../src/formats/safetensors/index.node.js";
import {
  encodeSafetensors,
  loadSafetensors,
  openSafetensors,
  openSafetensorsFile,
  readMetadata,
  saveSafetensors,
  saveSafetensorsFile,
  toFloat32,
  urlSource,
} from "../../src/formats/safetensors/index.node.js";
import { craft, entry, hex } from "./craft.js";

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "safetensors-"));
});
afterEach(() => {
  rmSync(folder, { recursive: true, force: true });
});

const tensors = [
  { name: "b", dtype: "I64" as const, shape: [1], data: BigInt64Array.of(-5n) },
  { name: "a", dtype: "F32" as const, shape: [2, 2], data: Float32Array.of(1, 2, 3, 4) },
];

test("the public surface", () => {
  const portable = [
    "DTYPE_BITS",
    "SAFETENSORS_DTYPES",
    "SafetensorsError",
    "blobSource",
    "bytesSource",
    "cpuStateDict",
    "cpuTensor",
    "encodeSafetensors",
    "openSafetensors",
    "openShardedSafetensors",
    "parseSafetensors",
    "parseShardIndex",
    "readPieces",
    "safetensorsSizeBytes",
    "tensorStreams",
    "tensorView",
    "toFloat32",
    "urlSource",
    "writeSafetensors",
  ];
  const files = [
    "fileSource",
    "loadSafetensors",
    "openSafetensorsFile",
    "openSafetensorsFileSync",
    "openShardedSafetensorsFiles",
    "readMetadata",
    "saveSafetensors",
    "saveSafetensorsFile",
  ];
  expect(Object.keys(surface).sort()).toEqual(portable);
  expect(Object.keys(nodeSurface).sort()).toEqual([...portable, ...files].sort());
});

describe("saving", () => {
  test("makes folders, writes the canonical bytes, leaves nothing else", async () => {
    const path = join(folder, "deep", "er", "m.safetensors");
    const sizeBytes = await saveSafetensorsFile(path, tensors, { k: "v" });
    expect(hex(readFileSync(path))).toBe(hex(encodeSafetensors(tensors, { k: "v" })));
    expect(sizeBytes).toBe(readFileSync(path).byteLength);
    expect(readdirSync(join(folder, "deep", "er"))).toEqual(["m.safetensors"]);
  });

  test("a provider that fails leaves the old file whole and no temporary", async () => {
    const path = join(folder, "m.safetensors");
    await saveSafetensorsFile(path, tensors);
    const before = hex(readFileSync(path));
    const failing = {
      name: "z",
      dtype: "U8" as const,
      shape: [2_000_000],
      data: function* () {
        yield new Uint8Array(1_000_000);
        throw new Error("device lost");
      },
    };
    await expect(saveSafetensorsFile(path, [...tensors, failing])).rejects.toThrow("device lost");
    const short = { ...failing, data: () => [new Uint8Array(1_999_999)] };
    await expect(saveSafetensorsFile(path, [...tensors, short])).rejects.toMatchObject({
      code: "safetensors.size_mismatch",
    });
    expect(hex(readFileSync(path))).toBe(before);
    expect(readdirSync(folder)).toEqual(["m.safetensors"]);
  });

  test("a folder that cannot be made is a typed error", async () => {
    writeFileSync(join(folder, "file"), "");
    const path = join(folder, "file", "m.safetensors");
    await expect(saveSafetensorsFile(path, tensors)).rejects.toMatchObject({
      name: "FileWriteError",
      exitCode: 4,
      path,
    });
  });

  test("save, load and save again by state: same tensors, same bytes", async () => {
    const path = join(folder, "m.safetensors");
    await saveSafetensors(new Map(tensors.map(({ name, ...rest }) => [name, rest])), path, { k: "v" });
    const state = await loadSafetensors(path);
    expect([...state].map(([name, t]) => [name, t.dtype, t.shape, [...toFloat32(t)]])).toEqual([
      ["b", "I64", [1], [-5]],
      ["a", "F32", [2, 2], [1, 2, 3, 4]],
    ]);
    const copy = join(folder, "copy.safetensors");
    const asInput = new Map(
      [...state].map(([name, { dtype, shape, bytes }]) => [name, { dtype, shape, data: bytes }]),
    );
    await saveSafetensors(asInput, copy, await readMetadata(path));
    expect(hex(readFileSync(copy))).toBe(hex(readFileSync(path)));
  });
});

describe("loading", () => {
  test("loaded tensors do not change when the file does", async () => {
    const path = join(folder, "m.safetensors");
    await saveSafetensorsFile(path, tensors);
    const state = await loadSafetensors(path);
    writeFileSync(path, new Uint8Array(readFileSync(path).byteLength));
    expect([...toFloat32(state.get("a")!)]).toEqual([1, 2, 3, 4]);
  });

  test("loaded tensors are aligned: float32 comes without a copy", async () => {
    const path = join(folder, "m.safetensors");
    await saveSafetensorsFile(path, tensors);
    const { bytes, ...rest } = (await loadSafetensors(path)).get("a")!;
    expect(toFloat32({ ...rest, bytes }).buffer).toBe(bytes.buffer);
  });

  test("metadata of a file that has none is empty", async () => {
    const path = join(folder, "m.safetensors");
    writeFileSync(path, craft(`{${entry("w", "U8", "[1]", 0, 1)}}`, 1));
    expect([...(await readMetadata(path))]).toEqual([]);
  });

  test("a truncated file says how much of it is there", async () => {
    const path = join(folder, "m.safetensors");
    const sizeBytes = await saveSafetensorsFile(path, tensors);
    truncateSync(path, sizeBytes - 3);
    const message = `${path}: file is truncated: have ${sizeBytes - 3} of ${sizeBytes} bytes (at byte ${sizeBytes - 3})`;
    await expect(loadSafetensors(path)).rejects.toMatchObject({
      code: "safetensors.truncated",
      file: path,
      message,
    });
    await expect(openSafetensorsFile(path)).rejects.toMatchObject({ message });
  });

  test("a file that shrinks while it is open is found out at the tensor", async () => {
    const path = join(folder, "m.safetensors");
    const data = new Uint8Array(1_000_000);
    const sizeBytes = await saveSafetensorsFile(path, [{ name: "a", dtype: "U8", shape: [1_000_000], data }]);
    const reader = await openSafetensorsFile(path);
    truncateSync(path, sizeBytes - 3);
    await expect(reader.read("a")).rejects.toMatchObject({ code: "safetensors.truncated", tensor: "a" });
    await reader.close();
  });

  test("small tensors, read in any order or at once, are their own aligned bytes", async () => {
    const path = join(folder, "m.safetensors");
    const many = Array.from({ length: 3000 }, (_, i) => ({
      name: `t${i}`,
      dtype: "F32" as const,
      shape: [1 + (i % 100)],
      data: new Float32Array(1 + (i % 100)).fill(i),
    }));
    await saveSafetensorsFile(path, many);
    const reader = await openSafetensorsFile(path);
    const isRight = async ({ name, data }: (typeof many)[number]) => {
      const { bytes } = await reader.read(name);
      const isOwn = bytes.byteOffset === 0 && bytes.buffer.byteLength === bytes.byteLength;
      return isOwn && Buffer.compare(bytes, new Uint8Array(data.buffer)) === 0;
    };
    const wrong: string[] = [];
    for (const tensor of [...many, ...[...many].reverse()]) {
      if (!(await isRight(tensor))) wrong.push(tensor.name);
    }
    const atOnce = await Promise.all(many.map(isRight));
    expect(wrong).toEqual([]);
    expect(atOnce.every(Boolean)).toBe(true);
    await reader.close();
  });

  test("a missing file is the system's error", async () => {
    await expect(openSafetensorsFile(join(folder, "none"))).rejects.toMatchObject({ code: "ENOENT" });
  });
});

describe("beyond 4 GiB", () => {
  test("tensors of 2.5 GB and past 4 GiB are read by ranges (sparse file)", async () => {
    const path = join(folder, "big.safetensors");
    const [first, second] = [2_500_000_000, 5_000_000_000];
    const header = `{${entry("a", "U8", `[${first}]`, 0, first)},${entry("b", "F32", "[625000000]", first, second)},${entry("c", "F32", "[2]", second, second + 8)}}`;
    const handle = await open(path, "w");
    await handle.write(craft(header));
    const dataStart = 8 + header.length;
    const marks: [number, Uint8Array][] = [
      [0, Uint8Array.of(1)],
      [first - 1, Uint8Array.of(2)],
      [second - 4, Uint8Array.of(0, 0, 128, 63)],
      [second, Uint8Array.of(0, 0, 0, 64, 0, 0, 64, 64)],
    ];
    for (const [offset, bytes] of marks) await handle.write(bytes, 0, bytes.byteLength, dataStart + offset);
    await handle.close();
    const reader = await openSafetensorsFile(path);
    expect([...(await reader.readRange("a", first - 2, first))]).toEqual([0, 2]);
    expect([...(await reader.readRange("b", 2_499_999_996, 2_500_000_000))]).toEqual([0, 0, 128, 63]);
    expect([...toFloat32(await reader.read("c"))]).toEqual([2, 3]);
    await reader.close();
  });
});

describe("by address", () => {
  let server: Server;
  let content: Uint8Array;
  let requests: string[];
  let mode: "ranges" | "whole" | "missing";
  beforeEach(async () => {
    requests = [];
    mode = "ranges";
    server = createServer((request, response) => {
      const [, from, to] = /bytes=([0-9]+)-([0-9]+)/.exec(request.headers.range ?? "")!;
      requests.push(`${from}-${to}`);
      if (mode === "missing") response.writeHead(404).end("not here");
      else if (mode === "whole") response.writeHead(200).end(content);
      else if (Number(from) >= content.byteLength) {
        response.writeHead(416, { "content-range": `bytes */${content.byteLength}` }).end();
      } else {
        const part = content.subarray(Number(from), Number(to) + 1);
        const range = `bytes ${from}-${Number(from) + part.byteLength - 1}/${content.byteLength}`;
        response.writeHead(206, { "content-range": range }).end(part);
      }
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  });
  afterEach(async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  });
  const address = () => `http://127.0.0.1:${(server.address() as AddressInfo).port}/m.safetensors`;

  test("a header takes one request, a tensor one more", async () => {
    const data = Float32Array.from({ length: 100_000 }, (_, i) => i);
    content = encodeSafetensors([{ name: "w", dtype: "F32", shape: [100_000], data }]);
    const reader = await openSafetensors(await urlSource(address()));
    expect(requests).toEqual(["0-65535"]);
    expect(toFloat32(await reader.read("w"))).toEqual(data);
    expect(requests).toHaveLength(2);
  });

  test("an empty file is truncated, not a failure of the server", async () => {
    content = new Uint8Array(0);
    await expect(urlSource(address()).then(openSafetensors)).rejects.toMatchObject({
      code: "safetensors.truncated",
    });
  });

  test.each([
    ["whole", 200],
    ["missing", 404],
  ] as const)("a server that answers %s is refused", async (kind, status) => {
    content = encodeSafetensors(tensors);
    mode = kind;
    await expect(urlSource(address())).rejects.toMatchObject({
      code: "safetensors.source",
      file: address(),
      message: expect.stringContaining(
        `${address()}: the server answered ${status} to a range request, 206 is needed`,
      ),
    });
  });

  test("secrets in an address do not reach the error", async () => {
    mode = "missing";
    const secret = address().replace("http://", "http://user:password@").concat("?signature=abc#x");
    const withoutLogin: typeof fetch = (url, init) => fetch(String(url).replace("user:password@", ""), init);
    await expect(urlSource(secret, { fetch: withoutLogin })).rejects.toMatchObject({
      file: address(),
      message: expect.not.stringMatching(/password|abc/),
    });
  });

  test("a file that changes its size meanwhile is refused", async () => {
    content = encodeSafetensors([{ name: "w", dtype: "U8", shape: [70_000], data: new Uint8Array(70_000) }]);
    const reader = await openSafetensors(await urlSource(address()));
    content = new Uint8Array(80_000);
    await expect(reader.read("w")).rejects.toMatchObject({ code: "safetensors.source", tensor: "w" });
  });
});
