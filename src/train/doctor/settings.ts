// Checks of the doctor that need the configuration alone: what training would refuse, and what it takes otherwise.

import type { SpeedtronicConfig } from "../../config/schema.js";
import { collectUnsupported } from "../../config/unsupported.js";
import type { TrainableModel } from "../../nn/contract.js";
import { buildConfiguredModel } from "../configured-model.js";
import { resolvePrecision } from "../precision.js";
import type { Findings } from "./finding.js";

export function checkSettings(config: SpeedtronicConfig, findings: Findings): string {
  const { refusals, notices } = collectUnsupported(config, { hasRecomputation: recomputes(config) });
  for (const { path, value, reason, action } of refusals)
    findings.problem(path, `${JSON.stringify(value)}: ${reason}`, action);
  for (const { path, reason, action } of notices) findings.note(path, reason, action);
  const { requested, resolved, reason } = resolvePrecision(config.precision);
  if (requested !== "auto" && requested !== resolved) findings.note("precision", `${requested}: ${reason}`);
  return `device cpu, precision ${resolved} (${reason})`;
}

/** A model that cannot be built is another check's finding. */
function recomputes(config: SpeedtronicConfig): boolean {
  if (!config.gradient_checkpointing) return false;
  try {
    const model: TrainableModel = buildConfiguredModel(config);
    return model.setGradientCheckpointing !== undefined;
  } catch {
    return false;
  }
}
