// Kernels of the optimisers beside AdamW, and of cautious updates. AssemblyScript; the rules of kernels.as.ts hold.
// `gradScale` multiplies the gradient, `keep` = 1 − lr·weightDecay, `complement` = 1 − momentum or 1 − β.

/** m = momentum·m + complement·g, then out = complement·g + momentum·m: Nesterov's look ahead. */
export function nesterovDirection(
  out: usize, g: usize, m: usize, n: usize, gradScale: f32, momentum: f32, complement: f32,
): void {
  const vs = f32x4.splat(gradScale);
  const vm = f32x4.splat(momentum);
  const vc = f32x4.splat(complement);
  for (let i: usize = 0, end = n << 2; i < end; i += 16) {
    const part = f32x4.mul(vc, f32x4.mul(vs, v128.load(g + i)));
    const next = f32x4.add(f32x4.mul(vm, v128.load(m + i)), part);
    v128.store(m + i, next);
    v128.store(out + i, f32x4.add(part, f32x4.mul(vm, next)));
  }
}

/** p = keep·p − stepSize·u. */
export function decayedStep(p: usize, u: usize, n: usize, keep: f32, stepSize: f32): void {
  const vk = f32x4.splat(keep);
  const vl = f32x4.splat(stepSize);
  for (let i: usize = 0, end = n << 2; i < end; i += 16)
    v128.store(p + i, f32x4.sub(f32x4.mul(vk, v128.load(p + i)), f32x4.mul(vl, v128.load(u + i))));
}

/** m = momentum·m + g, then p = keep·p − lr·(gradWeight·g + momentumWeight·m). */
export function sgd(
  p: usize, g: usize, m: usize, n: usize,
  gradScale: f32, keep: f32, lr: f32, momentum: f32, gradWeight: f32, momentumWeight: f32,
): void {
  const vs = f32x4.splat(gradScale);
  const vk = f32x4.splat(keep);
  const vl = f32x4.splat(lr);
  const vm = f32x4.splat(momentum);
  const vg = f32x4.splat(gradWeight);
  const vw = f32x4.splat(momentumWeight);
  for (let i: usize = 0, end = n << 2; i < end; i += 16) {
    const grad = f32x4.mul(vs, v128.load(g + i));
    const next = f32x4.add(f32x4.mul(vm, v128.load(m + i)), grad);
    v128.store(m + i, next);
    const moved = f32x4.mul(vl, f32x4.add(f32x4.mul(vg, grad), f32x4.mul(vw, next)));
    v128.store(p + i, f32x4.sub(f32x4.mul(vk, v128.load(p + i)), moved));
  }
}

/** p = keep·p − lr·sign(β1·m + (1−β1)·g), then m = β2·m + (1−β2)·g. */
export function lion(
  p: usize, g: usize, m: usize, n: usize,
  gradScale: f32, keep: f32, lr: f32, beta1: f32, complement1: f32, beta2: f32, complement2: f32,
): void {
  const vs = f32x4.splat(gradScale);
  const vk = f32x4.splat(keep);
  const up = f32x4.splat(lr);
  const down = f32x4.splat(-lr);
  const zero = f32x4.splat(0);
  const vb1 = f32x4.splat(beta1);
  const vc1 = f32x4.splat(complement1);
  const vb2 = f32x4.splat(beta2);
  const vc2 = f32x4.splat(complement2);
  for (let i: usize = 0, end = n << 2; i < end; i += 16) {
    const grad = f32x4.mul(vs, v128.load(g + i));
    const momentum = v128.load(m + i);
    const between = f32x4.add(f32x4.mul(vb1, momentum), f32x4.mul(vc1, grad));
    const moved = v128.or(v128.and(f32x4.gt(between, zero), up), v128.and(f32x4.lt(between, zero), down));
    v128.store(m + i, f32x4.add(f32x4.mul(vb2, momentum), f32x4.mul(vc2, grad)));
    v128.store(p + i, f32x4.sub(f32x4.mul(vk, v128.load(p + i)), moved));
  }
}

/** Copies `n` values. */
export function copy(to: usize, from: usize, n: usize): void {
  memory.copy(to, from, n << 2);
}

/** Ones where the way from `base` to `value` goes against the gradient, strictly. */
// @ts-ignore: decorator
@inline
function agrees(base: v128, value: v128, grad: v128): v128 {
  const zero = f32x4.splat(0);
  const down = v128.and(f32x4.gt(base, value), f32x4.gt(grad, zero));
  return v128.or(down, v128.and(f32x4.lt(base, value), f32x4.lt(grad, zero)));
}

/** Number of values whose change from keep·before to p agrees with the gradient. */
export function countAgreeing(p: usize, before: usize, g: usize, n: usize, keep: f32): f64 {
  const vk = f32x4.splat(keep);
  let count: i64 = 0;
  for (let i: usize = 0, end = n << 2; i < end; i += 16) {
    const base = f32x4.mul(vk, v128.load(before + i));
    count += popcnt(i32x4.bitmask(agrees(base, v128.load(p + i), v128.load(g + i))));
  }
  return <f64>count;
}

/** p = keep·before, and where the change agrees with the gradient, that change `scale` times on top. */
export function keepAgreeing(p: usize, before: usize, g: usize, n: usize, keep: f32, scale: f32): void {
  const vk = f32x4.splat(keep);
  const vs = f32x4.splat(scale);
  for (let i: usize = 0, end = n << 2; i < end; i += 16) {
    const base = f32x4.mul(vk, v128.load(before + i));
    const value = v128.load(p + i);
    const grown = scale == 1 ? value : f32x4.add(base, f32x4.mul(vs, f32x4.sub(value, base)));
    v128.store(p + i, v128.bitselect(grown, base, agrees(base, value, v128.load(g + i))));
  }
}
