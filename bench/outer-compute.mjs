// One round's arithmetic as the aggregator does it, from files to a sink that touches every byte: mean, momentum,
// weights, and the search for what is not finite. Prints one JSON line.
// Arguments: state, momentum, lr, mu, a folder to keep the results in ("" for none), deltas.

import { createWriteStream } from "node:fs";
import { join } from "node:path";
import { finished } from "node:stream/promises";
import { importBuilt } from "./dist.mjs";
import { peakMemoryMb } from "./peak-memory.mjs";

const { scratchSource } = await importBuilt("distributed/node/scratch-source.node.js");
const { loadOuterKernels, writeOuterStep } = await importBuilt("distributed/wire/index.node.js");
const { openSafetensors } = await importBuilt("formats/safetensors/index.js");

const [statePath, momentumPath, lr, mu, keepFolder, ...deltaPaths] = process.argv.slice(2);
const SINK_BYTES = 2 ** 20;

/** Copies all that comes into one buffer, again and again. */
class TouchingSink {
  #buffer = new Uint8Array(SINK_BYTES);
  sizeBytes = 0;

  async write(chunk) {
    for (let begin = 0; begin < chunk.byteLength; begin += SINK_BYTES)
      this.#buffer.set(chunk.subarray(begin, begin + SINK_BYTES));
    this.sizeBytes += chunk.byteLength;
  }
}

/** Writes a file; the chunk's memory is used again, hence the copy. */
class FileSink {
  constructor(path) {
    this.stream = createWriteStream(path);
  }

  write(chunk) {
    const copy = Buffer.from(chunk);
    return new Promise((resolve, reject) => {
      this.stream.write(copy, (error) => (error ? reject(error) : resolve()));
    });
  }
}

async function round(sinks) {
  const kernels = await loadOuterKernels();
  const readers = [];
  const open = async (path) => {
    const reader = await openSafetensors(await scratchSource(path));
    readers.push(reader);
    return reader;
  };
  const inputs = { state: await open(statePath), momentum: await open(momentumPath), deltas: [] };
  for (const path of deltaPaths) inputs.deltas.push(await open(path));
  const sizes = await writeOuterStep({ ...inputs, lr: Number(lr), mu: Number(mu), kernels }, sinks);
  for (const reader of readers) await reader.close();
  return sizes;
}

const before = process.cpuUsage();
const start = performance.now();
const sinks = { state: new TouchingSink(), momentum: new TouchingSink() };
await round(sinks);
const ms = performance.now() - start;
const { user, system } = process.cpuUsage(before);
const peakMb = peakMemoryMb();

if (keepFolder !== "") {
  const files = {
    state: new FileSink(join(keepFolder, "state.safetensors")),
    momentum: new FileSink(join(keepFolder, "momentum.safetensors")),
  };
  await round(files);
  for (const { stream } of Object.values(files)) {
    stream.end();
    await finished(stream);
  }
}
console.log(
  JSON.stringify({
    ms,
    cpu_ms: (user + system) / 1000,
    peak_mb: peakMb,
    sink_bytes: sinks.state.sizeBytes + sinks.momentum.sizeBytes,
    versions: { node: process.versions.node },
  }),
);
