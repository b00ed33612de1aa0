// Events about saving and restoring. `checkpoint` {step, path} is Python Speedtronic's; the rest is added.
import { type EventDocs, float, int, object, text } from "./doc.js";

export interface CheckpointEvents {
  checkpoint: {
    step: number;
    path: string;

    reason?: string;
    size_bytes?: number;
    save_s?: number;
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
} as const satisfies EventDocs<CheckpointEvents>;
