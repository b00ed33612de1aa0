// How rotary frequencies are stretched so that a model reads further than it was trained for at first. Pure
// functions of one frequency: the context length that a model is built for changes nothing here.

export type RotaryScaling =
  /** Every frequency divided by `factor`. */
  | { readonly kind: "linear"; readonly factor: number }
  /**
   * Llama 3.1: waves that are long against the original context are slowed by `factor`, short ones stay, and
   * between the two bounds the change is gradual.
   */
  | {
      readonly kind: "llama3";
      readonly factor: number;
      readonly lowFreqFactor: number;
      readonly highFreqFactor: number;
      /** Context in tokens before the stretching. */
      readonly originalContext: number;
    };

/** `frequency` in radians per position. */
export function scaleFrequency(frequency: number, scaling: RotaryScaling | null): number {
  if (scaling === null) return frequency;
  const slowed = frequency / scaling.factor;
  if (scaling.kind === "linear") return slowed;
  const { lowFreqFactor, highFreqFactor, originalContext } = scaling;
  const wavesInContext = (originalContext * frequency) / (2 * Math.PI);
  if (wavesInContext < lowFreqFactor) return slowed;
  if (wavesInContext > highFreqFactor) return frequency;
  const kept = (wavesInContext - lowFreqFactor) / (highFreqFactor - lowFreqFactor);
  return (1 - kept) * slowed + kept * frequency;
}
