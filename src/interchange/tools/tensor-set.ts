// What the tools work on, whatever form it has on disk: named tensors in one or more parts, and what is known about
// where they came from.

import type { CheckpointInfo } from "../../checkpoint/index.js";
import type { TensorReader } from "../../formats/safetensors/index.js";

export type TensorForm = "safetensors" | "sharded" | "checkpoint" | "torch";

export interface SetFile {
  readonly name: string;
  readonly sizeBytes: number;
}

/** An open input. Close it after use. */
export interface TensorSet {
  /** The path or address that was asked for. */
  readonly input: string;
  /** The file or folder that was found there; an address without its secrets. */
  readonly location: string;
  readonly form: TensorForm;
  /** `model` always; `optimizer` and others where there are such. */
  readonly parts: ReadonlyMap<string, TensorReader>;
  readonly metadata: ReadonlyMap<string, string>;
  readonly files: readonly SetFile[];
  /** Tied tensors that stand in the file once: name → name under which the values are. */
  readonly aliases: Readonly<Record<string, string>>;
  readonly checkpoint?: CheckpointInfo;
  /** What else is worth knowing, for people: label and text. */
  readonly facts: readonly (readonly [string, string])[];
  /** Bytes transferred so far, for addresses. */
  transferredBytes?(): number;
  close(): Promise<void>;
}

export const modelPart = (set: TensorSet): TensorReader => set.parts.get("model")!;
