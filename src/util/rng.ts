// Random numbers whose every value can be named: no global state, nothing that advances behind one's back.
// `MersenneTwister` is the sequential generator of Matsumoto and Nishimura (MT19937), kept for data that
// must equal what NumPy and PyTorch users know. `threefry2x32` is a counter-based hash (Salmon et al.,
// "Parallel random numbers: as easy as 1, 2, 3"): value = f(key, counter), made of 32-bit additions,
// rotations and exclusive ors only, so that it is exact in JavaScript and cheap to port. Not for secrets.

const stateSize = 624;
const shiftSize = 397;

/** MT19937 with 32-bit output, seeded by the standard `init_genrand` recurrence. */
export class MersenneTwister {
  private readonly state = new Uint32Array(stateSize);
  private used = stateSize;

  /** `seed` is any integer; only its value modulo 2^32 matters. */
  constructor(seed: number) {
    this.reseed(seed);
  }

  /** Starts again from `seed`, as a new generator would, without allocating. */
  reseed(seed: number): void {
    const state = this.state;
    let previous = seedWords(seed)[0];
    state[0] = previous;
    for (let i = 1; i < stateSize; i++) {
      previous = (Math.imul(1812433253, previous ^ (previous >>> 30)) + i) >>> 0;
      state[i] = previous;
    }
    this.used = stateSize;
  }

  /** The next tempered output, uniform over [0, 2^32). */
  nextUint32(): number {
    if (this.used === stateSize) this.regenerate();
    let y = this.state[this.used++]!;
    y ^= y >>> 11;
    y ^= (y << 7) & 0x9d2c5680;
    y ^= (y << 15) & 0xefc60000;
    y ^= y >>> 18;
    return y >>> 0;
  }

  private regenerate(): void {
    const state = this.state;
    for (let i = 0; i < stateSize; i++) {
      const y = (state[i]! & 0x80000000) | (state[(i + 1) % stateSize]! & 0x7fffffff);
      state[i] = state[(i + shiftSize) % stateSize]! ^ (y >>> 1) ^ (y & 1 ? 0x9908b0df : 0);
    }
    this.used = 0;
  }
}

/** A 64-bit key or value as two unsigned 32-bit words, low word first. */
export type Words = readonly [low: number, high: number];

/**
 * The two 32-bit words of a safe integer, as two's complement: different integers give different words.
 */
export function seedWords(seed: number): Words {
  return [seed >>> 0, Math.floor(seed / 2 ** 32) >>> 0];
}

/**
 * Threefry-2x32 with 20 rounds: 64 random bits for each pair of a key and a 64-bit counter. For a fixed key
 * it is a bijection of the counters. Counter words are taken modulo 2^32.
 */
export function threefry2x32(key: Words, counterLow: number, counterHigh: number): Words {
  const [k0, k1] = key;
  const k2 = 0x1bd11bda ^ k0 ^ k1;
  let x = (counterLow + k0) | 0;
  let y = (counterHigh + k1) | 0;

  // Five groups of four rounds, each followed by a key injection.
  for (let group = 1; group <= 5; group++) {
    const isOdd = group % 2 === 1;
    x = (x + y) | 0;
    y = rotateLeft(y, isOdd ? 13 : 17) ^ x;
    x = (x + y) | 0;
    y = rotateLeft(y, isOdd ? 15 : 29) ^ x;
    x = (x + y) | 0;
    y = rotateLeft(y, isOdd ? 26 : 16) ^ x;
    x = (x + y) | 0;
    y = rotateLeft(y, isOdd ? 6 : 24) ^ x;
    x = (x + keyWord(group, k0, k1, k2)) | 0;
    y = (y + keyWord(group + 1, k0, k1, k2) + group) | 0;
  }
  return [x >>> 0, y >>> 0];
}

function keyWord(index: number, k0: number, k1: number, k2: number): number {
  const slot = index % 3;
  return slot === 0 ? k0 : slot === 1 ? k1 : k2;
}

function rotateLeft(value: number, bits: number): number {
  return (value << bits) | (value >>> (32 - bits));
}
