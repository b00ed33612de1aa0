// `speedtronic plan` as text for people and as plain data for programs. Pure.

import { formatCount, formatDuration } from "../../observe/number-text.js";
import type { RunPlan } from "../../train/plan/plan-run.js";
import { formatBytes, formatFacts, formatWhole } from "./ckpt/format.js";

/** How fast it goes, and how that is known. */
export interface Speed {
  readonly tokensPerSec: number;
  readonly source: "probed" | "given";
}

export function expectedSeconds(plan: RunPlan, speed: Speed): number {
  return plan.tokens / speed.tokensPerSec;
}

export function formatPlan(plan: RunPlan, speed: Speed | undefined): string {
  const { parameters, trainable, memory, disk } = plan;
  const frozen = parameters === trainable ? "" : `, of which ${formatWhole(trainable)} are trained`;
  const parts = [
    ["weights", memory.weights],
    ["gradients", memory.gradients],
    ["optimizer", memory.moments],
    ["accumulation", memory.accumulation],
    ["activations", memory.activations],
    ["checkpoint copy", memory.snapshot],
    ["runtime", memory.runtime],
  ] as const;
  const time =
    speed === undefined
      ? "unknown: neither probed nor given"
      : `${formatDuration(expectedSeconds(plan, speed))} at ${formatCount(speed.tokensPerSec)} tokens/s (${speed.source}), ` +
        "without evaluation and checkpoints";
  return formatFacts([
    ["parameters", `${formatWhole(parameters)}${frozen}`],
    ["FLOPs per token", `${formatCount(plan.flopsPerToken)}, forward and backward`],
    ["steps", `${formatWhole(plan.steps)} of ${formatWhole(plan.tokensPerStep)} tokens`],
    ["tokens", formatWhole(plan.tokens)],
    ["FLOPs in all", formatCount(plan.totalFlops)],
    ["time", time],
    ["memory", `about ${formatBytes(memory.total)}`],
    ...parts
      .filter(([, bytes]) => bytes > 0)
      .map(([name, bytes]) => [`  ${name}`, formatBytes(bytes)] as const),
    [
      "disk",
      disk.checkpoints === 0
        ? "no checkpoints"
        : `${formatBytes(disk.total)}: at most ${disk.checkpoints} checkpoints of ${formatBytes(disk.perCheckpoint)}`,
    ],
  ]);
}

/** Snake case, bytes and seconds as numbers. */
export function plainPlan(plan: RunPlan, speed: Speed | undefined): Record<string, unknown> {
  const { memory, disk } = plan;
  return {
    parameters: plan.parameters,
    trainable_parameters: plan.trainable,
    flops_per_token: plan.flopsPerToken,
    total_flops: plan.totalFlops,
    steps: plan.steps,
    tokens_per_step: plan.tokensPerStep,
    tokens: plan.tokens,
    memory_bytes: {
      weights: memory.weights,
      gradients: memory.gradients,
      optimizer: memory.moments,
      accumulation: memory.accumulation,
      activations: memory.activations,
      checkpoint_copy: memory.snapshot,
      runtime: memory.runtime,
      total: memory.total,
    },
    disk_bytes: { per_checkpoint: disk.perCheckpoint, checkpoints: disk.checkpoints, total: disk.total },
    tokens_per_sec: speed?.tokensPerSec ?? null,
    tokens_per_sec_source: speed?.source ?? null,
    expected_seconds: speed === undefined ? null : expectedSeconds(plan, speed),
  };
}
