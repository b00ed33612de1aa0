// Random numbers for one tensor: a stream of its own, named by (seed, tensor name). Which numbers a tensor gets
// depends on nothing else, so neither the order of construction nor other tensors matter.
// The counter-based hash makes the start; millions of draws then come from Doty-Humphrey's small fast counting
// generator (sfc32), which costs a few 32-bit additions and shifts each and is exact in JavaScript.

import { seedWords, threefry2x32, type Words } from "../../util/rng.js";

/** Draws thrown away so that similar starts have nothing in common any more. */
const WARM_UP = 16;

/** A key from a seed and a name: the name's UTF-8 bytes are absorbed eight at a time, then their number. */
function streamKey(seed: number, name: string): Words {
  const bytes = new TextEncoder().encode(name);
  const view = new DataView(new ArrayBuffer(Math.ceil(bytes.length / 8) * 8));
  new Uint8Array(view.buffer).set(bytes);
  let key = seedWords(seed);
  for (let offset = 0; offset < view.byteLength; offset += 8)
    key = threefry2x32(key, view.getUint32(offset, true), view.getUint32(offset + 4, true));
  return threefry2x32(key, bytes.length, 0);
}

export class RandomStream {
  #a: number;
  #b: number;
  #c: number;
  #counter = 1;

  /** `seed` is any safe integer. */
  constructor(seed: number, name: string) {
    const key = streamKey(seed, name);
    [this.#a, this.#b] = threefry2x32(key, 0, 1);
    [this.#c] = threefry2x32(key, 1, 1);
    for (let i = 0; i < WARM_UP; i++) this.nextUint32();
  }

  /** Uniform over [0, 2^32). */
  nextUint32(): number {
    const result = (this.#a + this.#b + this.#counter) | 0;
    this.#counter = (this.#counter + 1) | 0;
    this.#a = this.#b ^ (this.#b >>> 9);
    this.#b = (this.#c + (this.#c << 3)) | 0;
    this.#c = (((this.#c << 21) | (this.#c >>> 11)) + result) | 0;
    return result >>> 0;
  }

  /** Fills `out` with independent draws, uniform over [low, high). */
  fillUniform(out: Float32Array, low: number, high: number): void {
    const scale = (high - low) / 2 ** 32;
    for (let i = 0; i < out.length; i++) out[i] = low + this.nextUint32() * scale;
  }

  /** Fills `out` with independent normal draws (Box–Muller in double precision). */
  fillNormal(out: Float32Array, mean: number, std: number): void {
    for (let i = 0; i < out.length; i += 2) {
      const radius = std * Math.sqrt(-2 * Math.log((this.nextUint32() + 1) / 2 ** 32));
      const angle = (2 * Math.PI * this.nextUint32()) / 2 ** 32;
      out[i] = mean + radius * Math.cos(angle);
      if (i + 1 < out.length) out[i + 1] = mean + radius * Math.sin(angle);
    }
  }
}
