// Whether two files hold the same tensors: the largest difference between their values.

import { readPieces, toFloat32 } from "../src/formats/safetensors/index.js";
import { openSafetensorsFile } from "../src/formats/safetensors/index.node.js";

/** Of float32 files with the same tensors; NaN when one of them has one. */
export async function largestDifference(a: string, b: string): Promise<number> {
  const [left, right] = [await openSafetensorsFile(a), await openSafetensorsFile(b)];
  try {
    const names = [...left.entries.keys()].sort();
    if (names.join("\n") !== [...right.entries.keys()].sort().join("\n"))
      throw new Error(`${a} and ${b} have other tensors`);
    let largest = 0;
    const others = readPieces(right, names);
    for await (const { entry, bytes } of readPieces(left, names)) {
      const other = (await others.next()).value;
      const [x, y] = [
        toFloat32({ dtype: entry.dtype, shape: [], bytes }),
        toFloat32({ dtype: other!.entry.dtype, shape: [], bytes: other!.bytes }),
      ];
      if (x.length !== y.length) throw new Error(`${entry.name} has another size in ${b}`);
      for (let i = 0; i < x.length; i++) {
        const difference = Math.abs(x[i]! - y[i]!);
        if (!(difference <= largest)) largest = difference;
      }
      if (Number.isNaN(largest)) return largest;
    }
    return largest;
  } finally {
    await left.close();
    await right.close();
  }
}
