// Events about saving and restoring. `checkpoint` {step, path} is Python Speedtronic's; the rest is added.
import { type EventDocs, float, int, object, text } from "./doc.js";

export interface CheckpointEvents {
  checkpoint: {
    step: number;
    path: string;

    reason?: string;
    size_bytes?: number;
    save_s?: number;
    stall_s?: number;
  };
  checkpoint_failed: {
    step: number;
    error: string;
    path?: string;
    reason?: string;
    /** Last good checkpoint, which stays in place, or null. */
    kept?: string | null;
  };
  resume: {
    step: number;
    path: string;
    epoch?: number;
    position?: number;
    skipped?: readonly { readonly path: string; readonly reason: string }[];
    notes?: readonly string[];
  };
  weights_loaded: {
    path: string;
    loaded: number;
    missing: readonly string[];
    unexpected: readonly string[];
    mismatched: readonly { readonly name: string; readonly expected: string; readonly found: string }[];
    initial: readonly string[];
    renamed: readonly { readonly from: string; readonly to: string }[];
    unused_patterns: readonly string[];
    differences: readonly string[];
    report: string;
  };
}

export const checkpointEventDocs = {
  checkpoint: {
    doc: "A checkpoint is written and verified.",
    keys: {
      step: int("step whose state it holds"),
      path: text("folder of the checkpoint"),
      reason: text("periodic, final, or the signal that asked for it"),
      size_bytes: int("size on disk"),
      save_s: float("seconds the save took"),
      stall_s: float("seconds that training waited for it; absent where the run has ended"),
    },
  },
  checkpoint_failed: {
    doc: "A checkpoint could not be written; earlier ones are untouched.",
    level: "WARNING",
    keys: {
      step: int("step that was to be saved"),
      error: text("what went wrong"),
      path: text("folder that was to be written"),
      reason: text("periodic, final, or the signal that asked for it"),
      kept: text("last good checkpoint, or null"),
    },
  },
  resume: {
    doc: "State was restored from a checkpoint.",
    keys: {
      step: int("step the run continues after"),
      path: text("folder of the checkpoint"),
      epoch: int("epoch of the restored data position"),
      position: int("samples consumed within that epoch"),
      skipped: object("newer checkpoints passed over, each with path and reason"),
      notes: object("differences worth knowing, such as another thread count"),
    },
  },
  weights_loaded: {
    doc: "A fresh run starts from given weights.",
    keys: {
      path: text("checkpoint folder or file that they came from"),
      loaded: int("tensors loaded"),
      missing: object("names of the model that the file lacks"),
      unexpected: object("names of the file that the model lacks"),
      mismatched: object("tensors of another shape or dtype, each with name, expected and found"),
      initial: object("names of the model that kept their initial values"),
      renamed: object("names that rules or wrapper prefixes changed, each with from and to"),
      unused_patterns: object("patterns of the load policy that allowed nothing"),
      differences: object("settings in which the weights' own model differs"),
      report: text("all of it in words"),
    },
  },
} as const satisfies EventDocs<CheckpointEvents>;
