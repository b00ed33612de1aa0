// What a finished run reports.

/** Why training stopped. */
export type StopReason =
  | { readonly kind: "target" }
  /** Asked to by the caller's AbortSignal; `cause` is its reason, a signal's name from the CLI. */
  | { readonly kind: "stopped"; readonly cause: string };

export interface TrainResult {
  /** Absolute step reached. */
  readonly steps: number;
  readonly samples: number;
  readonly tokens: number;
  /** Loss of the last update of this call; null when there was none. */
  readonly finalLoss: number | null;
  /** The last evaluation of this call; null when there was none. */
  readonly validation: { readonly step: number; readonly loss: number; readonly tokens: number } | null;
  readonly elapsedS: number;
  readonly stop: StopReason;
}
