// The order of an epoch as a function: position → index, from (seed, epoch) alone. Nothing is stored and any
// position costs the same, so a resumed run needs two numbers to continue where it was.
//
// The shuffle is a keyed bijection: a Feistel network over pairs of digits in base ceil(√n) (Black and
// Rogaway, "Ciphers with arbitrary finite domains"), repeated while the result lies outside [0, n).

import { invariant } from "../util/errors.js";
import { seedWords, threefry2x32, type Words } from "../util/rng.js";

export type Order = (position: number) => number;

export function sequentialOrder(): Order {
  return (position) => position;
}

// Keeps the keys of this use apart from those of other uses of the same seed.
const orderStream = 0x6f726472;
// Small domains need many rounds before all orders are about equally likely.
const rounds = 16;

/** A permutation of [0, length), the same for each call with the same arguments. */
export function shuffledOrder(length: number, seed: number, epoch: number): Order {
  invariant(length > 0 && length <= 2 ** 52, `cannot shuffle ${length} samples`);
  const key = threefry2x32(seedWords(seed), epoch, orderStream);
  const base = Math.ceil(Math.sqrt(length));
  return (position) => {
    let index = position;
    do index = permutePair(index, base, key);
    while (index >= length);
    return index;
  };
}

/** A keyed bijection of [0, base²). Each round adds to one digit a hash of the other. */
function permutePair(value: number, base: number, key: Words): number {
  let high = Math.floor(value / base);
  let low = value % base;
  for (let round = 0; round < rounds; round += 2) {
    high = (high + (threefry2x32(key, low, round)[0] % base)) % base;
    low = (low + (threefry2x32(key, high, round + 1)[0] % base)) % base;
  }
  return high * base + low;
}
