// Names inside a checkpoint directory, and nothing but names. A folder's name says its step for people; order,
// run and everything else a program needs come from the manifest inside.

export const MODEL_FILE = "model.safetensors";
export const OPTIMIZER_FILE = "optimizer.safetensors";
export const TRAINER_FILE = "trainer.json";
export const CONFIG_FILE = "config.json";
export const MODULES_FILE = "modules.json";
export const COORDINATOR_FILE = "coordinator.json";
export const COORDINATOR_TENSORS_FILE = "coordinator.safetensors";
export const MANIFEST_FILE = "manifest.json";
export const POINTER_FILE = "latest.json";

/** Files whose size and hash the manifest records. */
export const CONTENT_FILES = [
  MODEL_FILE,
  OPTIMIZER_FILE,
  TRAINER_FILE,
  CONFIG_FILE,
  MODULES_FILE,
  COORDINATOR_FILE,
  COORDINATOR_TENSORS_FILE,
] as const;
export type ContentFile = (typeof CONTENT_FILES)[number];

/** Files without which there is no checkpoint of that kind; the others are there when there is something to say. */
export const REQUIRED_FILES = {
  training: [MODEL_FILE, OPTIMIZER_FILE, TRAINER_FILE, CONFIG_FILE],
  weights: [MODEL_FILE, CONFIG_FILE],
} as const satisfies Record<string, readonly ContentFile[]>;

// "-2", "-3" … set apart a step that is saved again or by a second run: the new folder can so be complete and
// verified before the old one goes.
const folderPattern = /^step-[0-9]{12,16}(-([2-9]|[1-9][0-9]{1,8}))?$/;

/** `step-000000000500`, or `step-000000000500-2` for the second folder of that step. */
export function checkpointFolderName(step: number, copy: number): string {
  const base = `step-${String(step).padStart(12, "0")}`;
  return copy === 1 ? base : `${base}-${copy}`;
}

export function isCheckpointFolderName(name: string): boolean {
  return folderPattern.test(name);
}
