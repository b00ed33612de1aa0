// Sums of all tensors of a file, by as many threads as are asked for: each reads pieces in turn and adds them up where
// it read them. This module is the worker too.

import { isMainThread, Worker, workerData } from "node:worker_threads";
import { importBuilt } from "./dist.mjs";

const { openSafetensorsFileSync } = await importBuilt("formats/safetensors/index.node.js");

// The sum of float32 values with vector instructions, as torch has it: four vectors of running sums, added up in
// float64 after every 1024 values. sum(offset, count) over the memory "env.memory".
const sumModule = [
  "AGFzbQEAAAABBwFgAn9/AXwCDwEDZW52Bm1lbW9yeQIAAAMCAQAHEAIDc3VtAAAGbWVtb3J5AgAKkgIBjwIDBHsBfAF/IAAgAUEC",
  "dGohBwNAIABBgCBqIgEgB00EQP0MAAAAAAAAAAAAAAAAAAAAACEC/QwAAAAAAAAAAAAAAAAAAAAAIQP9DAAAAAAAAAAAAAAAAAAA",
  "AAAhBP0MAAAAAAAAAAAAAAAAAAAAACEFA0AgACABSQRAIAIgAP0ABAD95AEhAiADIAD9AAQQ/eQBIQMgBCAA/QAEIP3kASEEIAUg",
  "AP0ABDD95AEhBSAAQUBrIQAMAQsLIAYgAiAD/eQBIAQgBf3kAf3kASIC/R8AuyAC/R8Bu6AgAv0fArugIAL9HwO7oKAhBgwBCwsD",
  "QCAAIAdJBEAgBiAAKgIAu6AhBiAAQQRqIQAMAQsLIAYL",
].join("");
const pieceBytes = 2 ** 21;
const memory = new WebAssembly.Memory({ initial: pieceBytes / 65_536 });
const { instance } = await WebAssembly.instantiate(Buffer.from(sumModule, "base64"), { env: { memory } });
const buffer = new Uint8Array(memory.buffer);

/** Of a float32 tensor anywhere in memory. */
export function sumWhole(bytes) {
  let total = 0;
  for (let begin = 0; begin < bytes.byteLength; begin += pieceBytes) {
    const part = bytes.subarray(begin, begin + pieceBytes);
    buffer.set(part);
    total += instance.exports.sum(0, part.byteLength / 4);
  }
  return total;
}

/** Words of the shared memory: the next piece, the number of the file to read, threads that are done with it. */
const [nextPiece, round, doneCount] = [0, 1, 2];
const controlBytes = 64;

/** `threads` threads, this one among them, that sum up `file` again and again. Its first use is the workers' warm-up. */
export async function startSummers(file, tensors, threads) {
  const shared = new SharedArrayBuffer(controlBytes + 8 * tensors * threads);
  const control = new Int32Array(shared, 0, controlBytes / 4);
  const workers = Array.from(
    { length: threads - 1 },
    (_, i) => new Worker(new URL(import.meta.url), { workerData: { shared, file, tensors, place: i + 1 } }),
  );
  await Promise.all(workers.map((worker) => new Promise((resolve) => worker.once("message", resolve))));
  return {
    /** Tensors' sums in the order of the file. */
    sumTensors() {
      Atomics.store(control, nextPiece, 0);
      Atomics.store(control, doneCount, 0);
      Atomics.add(control, round, 1);
      Atomics.notify(control, round);
      sumShare(file, control, sumsAt(shared, tensors, 0));
      for (let done = Atomics.load(control, doneCount); done < threads - 1; ) {
        Atomics.wait(control, doneCount, done);
        done = Atomics.load(control, doneCount);
      }
      const parts = Array.from({ length: threads }, (_, place) => sumsAt(shared, tensors, place));
      return Array.from({ length: tensors }, (_, i) => parts.reduce((sum, part) => sum + part[i], 0));
    },
    close: () => Promise.all(workers.map((worker) => worker.terminate())),
  };
}

const sumsAt = (shared, tensors, place) =>
  new Float64Array(shared, controlBytes + 8 * tensors * place, tensors);

/** Pieces that no other thread took, into this thread's sums. */
function sumShare(path, control, sums) {
  sums.fill(0);
  const file = openSafetensorsFileSync(path);
  let mine = Atomics.add(control, nextPiece, 1);
  let [piece, tensor] = [0, 0];
  for (const { name, sizeBytes } of file.entries.values()) {
    for (let begin = 0; begin < sizeBytes; begin += pieceBytes) {
      if (piece++ !== mine) continue;
      const length = Math.min(pieceBytes, sizeBytes - begin);
      file.readRangeInto(name, begin, length === pieceBytes ? buffer : buffer.subarray(0, length));
      sums[tensor] += instance.exports.sum(0, length / 4);
      mine = Atomics.add(control, nextPiece, 1);
    }
    tensor += 1;
  }
  file.close();
}

if (!isMainThread) {
  const { parentPort } = await import("node:worker_threads");
  const { shared, file, tensors, place } = workerData;
  const control = new Int32Array(shared, 0, controlBytes / 4);
  parentPort.postMessage("ready");
  for (let seen = 0; ; ) {
    Atomics.wait(control, round, seen);
    seen = Atomics.load(control, round);
    sumShare(file, control, sumsAt(shared, tensors, place));
    Atomics.add(control, doneCount, 1);
    Atomics.notify(control, doneCount);
  }
}
