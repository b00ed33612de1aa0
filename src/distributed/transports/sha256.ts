// SHA-256 (FIPS 180-4) without waiting: where the order of events must not depend on a thread pool, and where there is
// no other hash. Large files on disk are hashed by Node's own.

const K = new Uint32Array(64);
const START = new Uint32Array(8);

// The constants are the first 32 bits of the fractional parts of the roots of the first primes.
for (let candidate = 2, found = 0; found < 64; candidate++) {
  let isPrime = true;
  for (let divisor = 2; divisor * divisor <= candidate; divisor++) {
    if (candidate % divisor === 0) isPrime = false;
  }
  if (!isPrime) continue;
  if (found < 8) START[found] = fraction(Math.sqrt(candidate));
  K[found++] = fraction(Math.cbrt(candidate));
}

function fraction(value: number): number {
  return Math.floor((value - Math.floor(value)) * 2 ** 32);
}

/** Lower-case hex. Text is taken as UTF-8. */
export function sha256Hex(data: Uint8Array | string): string {
  const bytes = typeof data === "string" ? new TextEncoder().encode(data) : data;
  const state = START.slice();
  const words = new Uint32Array(64);
  const whole = bytes.byteLength - (bytes.byteLength % 64);
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  for (let at = 0; at < whole; at += 64) mix(state, words, view, at);
  const rest = bytes.byteLength - whole;
  const tail = new Uint8Array(rest < 56 ? 64 : 128);
  tail.set(bytes.subarray(whole));
  tail[rest] = 0x80;
  const tailView = new DataView(tail.buffer);
  tailView.setUint32(tail.byteLength - 8, Math.floor(bytes.byteLength / 2 ** 29));
  tailView.setUint32(tail.byteLength - 4, (bytes.byteLength * 8) >>> 0);
  for (let at = 0; at < tail.byteLength; at += 64) mix(state, words, tailView, at);
  return Array.from(state, (word) => word.toString(16).padStart(8, "0")).join("");
}

function mix(state: Uint32Array, words: Uint32Array, view: DataView, at: number): void {
  for (let t = 0; t < 16; t++) words[t] = view.getUint32(at + 4 * t);
  for (let t = 16; t < 64; t++) {
    const x = words[t - 15]!;
    const y = words[t - 2]!;
    const small = (turn(x, 7) ^ turn(x, 18) ^ (x >>> 3)) + words[t - 16]!;
    words[t] = small + (turn(y, 17) ^ turn(y, 19) ^ (y >>> 10)) + words[t - 7]!;
  }
  let [a = 0, b = 0, c = 0, d = 0, e = 0, f = 0, g = 0, h = 0] = state;
  for (let t = 0; t < 64; t++) {
    const choice = (e & f) ^ (~e & g);
    const first = (h + (turn(e, 6) ^ turn(e, 11) ^ turn(e, 25)) + choice + K[t]! + words[t]!) | 0;
    const majority = (a & b) ^ (a & c) ^ (b & c);
    const second = ((turn(a, 2) ^ turn(a, 13) ^ turn(a, 22)) + majority) | 0;
    [h, g, f, e, d, c, b, a] = [g, f, e, (d + first) | 0, c, b, a, (first + second) | 0];
  }
  for (const [i, value] of [a, b, c, d, e, f, g, h].entries()) state[i] = state[i]! + value;
}

function turn(word: number, bits: number): number {
  return (word >>> bits) | (word << (32 - bits));
}
