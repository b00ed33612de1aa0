// Special functions that JavaScript's Math lacks, to double precision.

/**
 * The error function. Below 1.5 by the all-positive series 2/√π · e^(−x²) · Σ 2ⁿ x^(2n+1) / (2n+1)!!, above by
 * the continued fraction of its complement (Abramowitz and Stegun 7.1.6 and 7.1.14).
 */
export function erf(x: number): number {
  if (Number.isNaN(x)) return x;
  const magnitude = Math.abs(x);
  // From 6 on the complement is below half a unit in the last place of 1.
  if (magnitude >= 6) return Math.sign(x);
  return magnitude < 1.5 ? erfSeries(x) : Math.sign(x) * (1 - erfcFraction(magnitude));
}

function erfSeries(x: number): number {
  let term = x;
  let sum = x;
  for (let n = 1; Math.abs(term) > Math.abs(sum) * 1e-18; n++) {
    term *= (2 * x * x) / (2 * n + 1);
    sum += term;
  }
  return (2 / Math.sqrt(Math.PI)) * Math.exp(-x * x) * sum;
}

/** erfc(x) for x ≥ 1.5: e^(−x²)/√π · 1/(x + (1/2)/(x + 1/(x + (3/2)/(x + …)))), evaluated from inside out. */
function erfcFraction(x: number): number {
  let fraction = x;
  for (let n = 120; n >= 1; n--) fraction = x + n / 2 / fraction;
  return Math.exp(-x * x) / (Math.sqrt(Math.PI) * fraction);
}

/** 1 / (1 + e^(−x)), accurate for large |x| of either sign. */
export function logistic(x: number): number {
  if (x >= 0) return 1 / (1 + Math.exp(-x));
  const e = Math.exp(x);
  return e / (1 + e);
}
