// Which number format a run computes in, and why: what was asked for, what this device does, in words.

import type { PrecisionConfig } from "../config/schema.js";

export interface PrecisionPlan {
  readonly requested: string;
  readonly resolved: "fp32";
  readonly reason: string;
}

/** The CPU engine computes in float32; lower formats have no CPU kernels there. */
export function resolvePrecision({ mode, dtype }: PrecisionConfig): PrecisionPlan {
  const requested = mode === "auto" && dtype !== null ? dtype : mode;
  const reasons: Record<string, string> = {
    auto: "float32 is what the CPU engine computes in",
    fp32: "as requested",
    fp16: "the CPU engine has no float16 kernels that gain anything: float32 is used",
    bf16: "the CPU engine has no bfloat16 kernels: float32 is used",
  };
  return { requested, resolved: "fp32", reason: reasons[requested] ?? reasons.auto! };
}
