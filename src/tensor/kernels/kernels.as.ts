// Streaming kernels over one linear memory, compiled by AssemblyScript to WebAssembly with SIMD. This is not
// TypeScript: the types are AssemblyScript's. All addresses are byte offsets that are multiples of 16, all
// counts are multiples of 4 elements (callers pad with zeros). No relaxed SIMD: every machine gives equal bits.

export { copy, countAgreeing, decayedStep, keepAgreeing, lion, nesterovDirection, sgd } from "./optim.as";
export { outerAddScaled, outerAdvance, outerSquares, outerSubtract, outerSum } from "./outer.as";

/** Σ x² in float64 over `n` float32 values. Four partial sums, added in a fixed order. */
export function sumOfSquares(x: usize, n: usize): f64 {
  let low = f64x2.splat(0);
  let high = f64x2.splat(0);
  const end = x + (n << 2);
  for (; x < end; x += 16) {
    const v = v128.load(x);
    const a = f64x2.promote_low_f32x4(v);
    const b = f64x2.promote_low_f32x4(v128.shuffle<u32>(v, v, 2, 3, 2, 3));
    low = f64x2.add(low, f64x2.mul(a, a));
    high = f64x2.add(high, f64x2.mul(b, b));
  }
  return (
    f64x2.extract_lane(low, 0) + f64x2.extract_lane(low, 1) + f64x2.extract_lane(high, 0) + f64x2.extract_lane(high, 1)
  );
}

/** y += a · x. */
export function addScaled(y: usize, x: usize, n: usize, a: f32): void {
  const va = f32x4.splat(a);
  for (let i: usize = 0, end = n << 2; i < end; i += 16)
    v128.store(y + i, f32x4.add(v128.load(y + i), f32x4.mul(va, v128.load(x + i))));
}

/** x *= a. */
export function scale(x: usize, n: usize, a: f32): void {
  const va = f32x4.splat(a);
  for (let i: usize = 0, end = n << 2; i < end; i += 16) v128.store(x + i, f32x4.mul(va, v128.load(x + i)));
}

/** Sets `n` values to zero. */
export function clear(x: usize, n: usize): void {
  memory.fill(x, 0, n << 2);
}

/**
 * AdamW with decoupled decay. `gradScale` multiplies the gradient (mean over tokens and clipping),
 * `keep` = 1 − lr·weightDecay, `complement` = 1 − β (rounded once, from float64), `stepSize` = lr / (1 − β1^t), `inverseSqrtCorrection` = 1 / sqrt(1 − β2^t).
 */
export function adamw(
  p: usize, g: usize, m: usize, v: usize, n: usize,
  gradScale: f32, keep: f32, stepSize: f32, beta1: f32, complement1: f32, beta2: f32, complement2: f32,
  inverseSqrtCorrection: f32, eps: f32,
): void {
  const vs = f32x4.splat(gradScale);
  const vk = f32x4.splat(keep);
  const vl = f32x4.splat(stepSize);
  const vb1 = f32x4.splat(beta1);
  const vc1 = f32x4.splat(complement1);
  const vb2 = f32x4.splat(beta2);
  const vc2 = f32x4.splat(complement2);
  const vi = f32x4.splat(inverseSqrtCorrection);
  const ve = f32x4.splat(eps);
  for (let i: usize = 0, end = n << 2; i < end; i += 16) {
    const grad = f32x4.mul(vs, v128.load(g + i));
    const first = f32x4.add(f32x4.mul(vb1, v128.load(m + i)), f32x4.mul(vc1, grad));
    const second = f32x4.add(f32x4.mul(vb2, v128.load(v + i)), f32x4.mul(vc2, f32x4.mul(grad, grad)));
    v128.store(m + i, first);
    v128.store(v + i, second);
    const denominator = f32x4.add(f32x4.mul(f32x4.sqrt(second), vi), ve);
    const moved = f32x4.div(f32x4.mul(vl, first), denominator);
    v128.store(p + i, f32x4.sub(f32x4.mul(vk, v128.load(p + i)), moved));
  }
}

/**
 * table[ids[r]] += updates[r] for `rows` rows of `width` float32; width need not be a multiple of 4.
 * ids are int32. Returns −1, or the first row whose id is outside 0 … tableRows−1 (nothing after it is added).
 */
export function scatterAdd(table: usize, tableRows: i32, ids: usize, updates: usize, rows: i32, width: i32): i32 {
  const rowBytes = <usize>width << 2;
  const vectorBytes = rowBytes & ~(<usize>15);
  for (let r = 0; r < rows; r++) {
    const id = load<i32>(ids + (<usize>r << 2));
    if (id < 0 || id >= tableRows) return r;
    const target = table + <usize>id * rowBytes;
    let j: usize = 0;
    for (; j < vectorBytes; j += 16)
      v128.store(target + j, f32x4.add(v128.load(target + j), v128.load(updates + j)));
    for (; j < rowBytes; j += 4) store<f32>(target + j, load<f32>(target + j) + load<f32>(updates + j));
    updates += rowBytes;
  }
  return -1;
}

/** `spread` is the element's index times 0x9e3779b1 (see random.ts). */
// @ts-ignore: decorator
@inline
function dropoutBits(spread: v128, k0: v128, k1: v128): v128 {
  let x = v128.xor(spread, k0);
  x = i32x4.mul(v128.xor(x, i32x4.shr_u(x, 16)), i32x4.splat(0x21f0aaad));
  x = i32x4.add(x, k1);
  x = i32x4.mul(v128.xor(x, i32x4.shr_u(x, 15)), i32x4.splat(0x735a2d97));
  return v128.xor(x, i32x4.shr_u(x, 15));
}

/** `n` values of a dropout mask: `value` where the bits of the element reach `threshold`, else 0 (see random.ts). */
export function dropoutMask(out: usize, n: usize, key0: i32, key1: i32, threshold: i32, value: f32): void {
  const k0 = i32x4.splat(key0);
  const k1 = i32x4.splat(key1);
  const least = i32x4.splat(threshold);
  const kept = f32x4.splat(value);
  const stride = i32x4.splat(4 * 0x9e3779b1);
  let spread = i32x4.mul(i32x4(0, 1, 2, 3), i32x4.splat(0x9e3779b1));
  for (let end = out + (n << 2); out < end; out += 16) {
    v128.store(out, v128.and(i32x4.ge_u(dropoutBits(spread, k0, k1), least), kept));
    spread = i32x4.add(spread, stride);
  }
}
