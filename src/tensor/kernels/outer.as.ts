// Kernels of the outer step of distributed training, for float32 at any address that is a multiple of 4 and any count.
// AssemblyScript, as kernels.as.ts. Every element takes the operations of the portable loops in their order, each
// rounded as there: the results are equal bit for bit. Divisions, sums and products of two float32 round the same in
// float32 as in float64 and then to float32; only the fused update needs float64.

// Elements of a round of the vector loops: four vectors.
const BLOCK_BYTES: usize = 64;

/**
 * out = (base + x[0] + x[1] + …) / divisor over `count` arrays, whose addresses are the u32 at `table`; `base` is 0, or
 * what `out` holds if `isContinued`.
 */
export function outerSum(out: usize, table: usize, count: i32, n: usize, isContinued: bool, divisor: f32): void {
  const bytes = n << 2;
  const tableEnd = table + (<usize>count << 2);
  const divide = f32x4.splat(divisor);
  const isDivided = divisor != 1;
  let i: usize = 0;
  for (; i + BLOCK_BYTES <= bytes; i += BLOCK_BYTES) {
    let a = f32x4.splat(0);
    let b = a;
    let c = a;
    let d = a;
    if (isContinued) {
      a = v128.load(out + i);
      b = v128.load(out + i, 16);
      c = v128.load(out + i, 32);
      d = v128.load(out + i, 48);
    }
    for (let entry = table; entry < tableEnd; entry += 4) {
      const x = <usize>load<u32>(entry) + i;
      a = f32x4.add(a, v128.load(x));
      b = f32x4.add(b, v128.load(x, 16));
      c = f32x4.add(c, v128.load(x, 32));
      d = f32x4.add(d, v128.load(x, 48));
    }
    if (isDivided) {
      a = f32x4.div(a, divide);
      b = f32x4.div(b, divide);
      c = f32x4.div(c, divide);
      d = f32x4.div(d, divide);
    }
    v128.store(out + i, a);
    v128.store(out + i, b, 16);
    v128.store(out + i, c, 32);
    v128.store(out + i, d, 48);
  }
  for (; i < bytes; i += 4) {
    let sum: f32 = isContinued ? load<f32>(out + i) : 0;
    for (let entry = table; entry < tableEnd; entry += 4) sum += load<f32>(<usize>load<u32>(entry) + i);
    store<f32>(out + i, isDivided ? sum / divisor : sum);
  }
}

/** y = y + weight · x, or weight · x + 0 unless `isContinued`. */
export function outerAddScaled(y: usize, x: usize, n: usize, isContinued: bool, weight: f32): void {
  const bytes = n << 2;
  const w = f32x4.splat(weight);
  let i: usize = 0;
  for (; i + 16 <= bytes; i += 16) {
    const base = isContinued ? v128.load(y + i) : f32x4.splat(0);
    v128.store(y + i, f32x4.add(base, f32x4.mul(w, v128.load(x + i))));
  }
  for (; i < bytes; i += 4) {
    const base: f32 = isContinued ? load<f32>(y + i) : 0;
    store<f32>(y + i, base + weight * load<f32>(x + i));
  }
}

/**
 * buffer = mu · previous + g, then g = g + mu · buffer; `previous` at address 0 stands for zeros. Returns whether all
 * of the buffer is finite.
 */
export function outerAdvance(buffer: usize, g: usize, previous: usize, n: usize, mu: f32): bool {
  const bytes = n << 2;
  const m = f32x4.splat(mu);
  let faults = f32x4.splat(0);
  let i: usize = 0;
  for (; i + 16 <= bytes; i += 16) {
    const gradient = v128.load(g + i);
    const old = previous == 0 ? f32x4.splat(0) : v128.load(previous + i);
    const next = f32x4.add(f32x4.mul(m, old), gradient);
    v128.store(buffer + i, next);
    v128.store(g + i, f32x4.add(gradient, f32x4.mul(m, next)));
    // x − x is 0 for finite x, else NaN.
    faults = v128.or(faults, f32x4.sub(next, next));
  }
  let isFinite = !v128.any_true(faults);
  for (; i < bytes; i += 4) {
    const gradient = load<f32>(g + i);
    const old: f32 = previous == 0 ? 0 : load<f32>(previous + i);
    const next: f32 = mu * old + gradient;
    store<f32>(buffer + i, next);
    store<f32>(g + i, gradient + mu * next);
    if (next - next != 0) isFinite = false;
  }
  return isFinite;
}

/** out = state − lr · eff in float64, rounded when stored. Returns whether all of it is finite. */
export function outerSubtract(out: usize, state: usize, eff: usize, n: usize, lr: f32): bool {
  const bytes = n << 2;
  const rate = f64x2.splat(lr);
  let faults = f32x4.splat(0);
  let i: usize = 0;
  for (; i + 16 <= bytes; i += 16) {
    const s = v128.load(state + i);
    const e = v128.load(eff + i);
    const low = f64x2.sub(f64x2.promote_low_f32x4(s), f64x2.mul(rate, f64x2.promote_low_f32x4(e)));
    const high = f64x2.sub(
      f64x2.promote_low_f32x4(v128.shuffle<u32>(s, s, 2, 3, 2, 3)),
      f64x2.mul(rate, f64x2.promote_low_f32x4(v128.shuffle<u32>(e, e, 2, 3, 2, 3))),
    );
    const next = v128.shuffle<u32>(f32x4.demote_f64x2_zero(low), f32x4.demote_f64x2_zero(high), 0, 1, 4, 5);
    v128.store(out + i, next);
    faults = v128.or(faults, f32x4.sub(next, next));
  }
  let isFinite = !v128.any_true(faults);
  for (; i < bytes; i += 4) {
    const next = <f32>(<f64>load<f32>(state + i) - <f64>lr * <f64>load<f32>(eff + i));
    store<f32>(out + i, next);
    if (next - next != 0) isFinite = false;
  }
  return isFinite;
}

/**
 * Adds the squares of `n` values to eight float64 sums at `lanes`: the value at position p of all that was ever added
 * belongs to sum p mod 8. `phase` is the position, mod 8, of the first value.
 */
export function outerSquares(x: usize, n: usize, lanes: usize, phase: i32): void {
  const end = x + (n << 2);
  for (; x < end && (phase & 7) != 0; x += 4, phase++) addSquare(x, lanes + ((phase & 7) << 3));
  let a = v128.load(lanes);
  let b = v128.load(lanes, 16);
  let c = v128.load(lanes, 32);
  let d = v128.load(lanes, 48);
  for (; x + 32 <= end; x += 32) {
    const v = v128.load(x);
    const w = v128.load(x, 16);
    const v0 = f64x2.promote_low_f32x4(v);
    const v1 = f64x2.promote_low_f32x4(v128.shuffle<u32>(v, v, 2, 3, 2, 3));
    const w0 = f64x2.promote_low_f32x4(w);
    const w1 = f64x2.promote_low_f32x4(v128.shuffle<u32>(w, w, 2, 3, 2, 3));
    a = f64x2.add(a, f64x2.mul(v0, v0));
    b = f64x2.add(b, f64x2.mul(v1, v1));
    c = f64x2.add(c, f64x2.mul(w0, w0));
    d = f64x2.add(d, f64x2.mul(w1, w1));
  }
  v128.store(lanes, a);
  v128.store(lanes, b, 16);
  v128.store(lanes, c, 32);
  v128.store(lanes, d, 48);
  for (; x < end; x += 4, lanes += 8) addSquare(x, lanes);
}

// @ts-ignore: decorator
@inline
function addSquare(x: usize, lane: usize): void {
  const value = <f64>load<f32>(x);
  store<f64>(lane, load<f64>(lane) + value * value);
}
