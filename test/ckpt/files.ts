// Small model files for the tests of `speedtronic ckpt`, and a web server that answers ranges.

import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { afterAll } from "vitest";
import { saveSafetensorsFile, type TensorInput } from "../../src/formats/safetensors/index.node.js";

export function floats(name: string, values: readonly number[], shape = [values.length]): TensorInput {
  return { name, dtype: "F32", shape, data: Float32Array.from(values) };
}

/** Values that look like weights, different for each name. */
export function noise(name: string, shape: readonly number[], scale = 0.02): TensorInput {
  const size = shape.reduce((product, extent) => product * extent, 1);
  const phase = [...name].reduce((sum, character) => sum + character.charCodeAt(0), 0);
  const values = Array.from(
    { length: size },
    (_, i) => scale * Math.sin(phase + i * 1.7) * Math.cos(i * i * 0.3),
  );
  return floats(name, values, [...shape]);
}

export async function writeModel(
  path: string,
  tensors: readonly TensorInput[],
  metadata: Record<string, string> = {},
): Promise<string> {
  await saveSafetensorsFile(path, tensors, metadata);
  return path;
}

/** A model with two layers that are alike. */
export function smallModel(seed = ""): TensorInput[] {
  return [
    noise(`${seed}wte.weight`, [16, 8]),
    ...[0, 1].flatMap((layer) => [
      noise(`${seed}h.${layer}.attn.q.weight`, [8, 8]),
      noise(`${seed}h.${layer}.norm.weight`, [8], 1),
    ]),
  ].map((tensor) => ({ ...tensor, name: tensor.name.slice(seed.length) }));
}

/** Serves the files of `folder`; `ranges: false` sends them whole, as simple servers do. */
export async function serveFolder(folder: string, { ranges = true } = {}) {
  let sentBytes = 0;
  const server = createServer((request, response) => {
    let content: Buffer;
    try {
      content = readFileSync(join(folder, decodeURIComponent(request.url!.slice(1).replace(/\?.*/, ""))));
    } catch {
      response.writeHead(404).end();
      return;
    }
    const range = /^bytes=(\d+)-(\d+)$/.exec(request.headers.range ?? "");
    if (!range || !ranges) {
      response.writeHead(200).end(content);
      return;
    }
    const [begin, end] = [Number(range[1]), Math.min(Number(range[2]) + 1, content.byteLength)];
    const part = content.subarray(begin, end);
    sentBytes += part.byteLength;
    response.writeHead(206, {
      "content-range": `bytes ${begin}-${end - 1}/${content.byteLength}`,
      "content-length": part.byteLength,
    });
    response.end(part);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const close = () => new Promise<void>((resolve) => server.close(() => resolve()));
  afterAll(close);
  const { port } = server.address() as AddressInfo;
  return { address: `http://127.0.0.1:${port}`, sentBytes: () => sentBytes, close };
}
