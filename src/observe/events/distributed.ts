// Events of training together with other machines. The five `delta_upload…` names and `outer_step` are Python
// Speedtronic's, with its keys first; keys below the blank line and all other events are added.
import { type EventDocs, flag, float, int, object, text } from "./doc.js";

export interface DistributedEvents {
  delta_upload_queued: {
    step: number;
    base_outer_step: number;

    path?: string;
    steps?: number;
  };
  delta_uploaded: {
    step: number;

    path?: string;
  };
  delta_upload_skipped: {
    step: number;
    reason: string;
  };
  delta_upload_failed: {
    step: number;
    error: string;

    path?: string;
    is_permanent?: boolean;
  };
  outer_step: {
    outer_step: number;
    deltas_found: number;
    deltas_included: number;

    nodes?: number;
    deltas_refused?: Readonly<Record<string, number>>;
    deltas_waiting?: number;
  };
  delta_dropped: {
    step: number;
    steps: number;
    reason: string;
  };
  delta_decided: {
    path: string;
    steps: number;
    fate: string;
    outer_step?: number;
    weight?: number;
    reason?: string;
  };
  global_installed: {
    outer_step: number;
    step: number;
    kept_deltas: number;
    kept_steps: number;
  };
  global_fetch_failed: {
    outer_step: number;
    error: string;
    is_permanent: boolean;
  };
  version_ignored: {
    outer_step: number;
    newest: number;
    reason: string;
  };
  version_refused: {
    error: string;
  };
  node_start: {
    node_id: string;
    repository: string;
    installed: number | null;
    pending_deltas: number;
  };
  node_stop: {
    step: number;
    installed: number | null;
    unsent_deltas: number;
  };
  node_waiting: {
    error: string;
    code: string;
    wait_s?: number;
  };
  node_blocked: {
    error: string;
    code: string;
  };
  node_online: {
    repository: string;
  };
  node_state_failed: {
    error: string;
  };
}

const step = int("local step");
const outerStep = int("number of the version");
const path = text("path of the delta in the repository");
const error = text("what went wrong");
const code = text("stable name of the problem");
const installed = int("version in the weights, or null");

export const distributedEventDocs = {
  delta_upload_queued: {
    doc: "A delta is on disk and waits to be sent.",
    keys: {
      step,
      base_outer_step: int("version that the node had installed; -1: none"),
      path,
      steps: int("local steps in it"),
    },
  },
  delta_uploaded: { doc: "A delta is in the repository.", keys: { step, path } },
  delta_upload_skipped: {
    doc: "No delta was taken at this boundary; its progress goes into a later one.",
    keys: { step, reason: text("queue_full: the one before is still being sent") },
  },
  delta_upload_failed: {
    doc: "A delta could not be sent; it stays in the outbox.",
    level: "WARNING",
    keys: { step, error, path, is_permanent: flag("trying again can only fail, unless something is done") },
  },
  outer_step: {
    doc: "A master made a new version out of deltas.",
    keys: {
      outer_step: outerStep,
      deltas_found: int("deltas that it decides on"),
      deltas_included: int("deltas in its sum"),
      nodes: int("nodes whose work is in it"),
      deltas_refused: object("deltas that are not in the sum, counted by reason"),
      deltas_waiting: int("deltas left for a later version"),
    },
  },
  delta_dropped: {
    doc: "A delta is not sent at all.",
    level: "WARNING",
    keys: {
      step,
      steps: int("local steps in it"),
      reason: text("zero, non_finite, or file_missing"),
    },
  },
  delta_decided: {
    doc: "A version says what became of a delta of this node.",
    keys: {
      path,
      steps: int("local steps in it"),
      fate: text("applied, merged, stale, rejected, or unknown"),
      outer_step: int("version that decided"),
      weight: float("its factor in that version's sum"),
      reason: text("why it is not in the sum"),
    },
  },
  global_installed: {
    doc: "A published version is in the weights now, with own progress that it lacks on top.",
    keys: {
      outer_step: outerStep,
      step,
      kept_deltas: int("own deltas that the version does not contain"),
      kept_steps: int("local steps since the last delta"),
    },
  },
  global_fetch_failed: {
    doc: "A version's weights could not be fetched, or do not fit; training goes on without them.",
    level: "WARNING",
    keys: { outer_step: outerStep, error, is_permanent: flag("this version is not tried again") },
  },
  version_ignored: {
    doc: "The repository shows a version number that cannot follow what is known.",
    level: "WARNING",
    keys: {
      outer_step: outerStep,
      newest: int("newest version known"),
      reason: text("older, or too_far_ahead"),
    },
  },
  version_refused: {
    doc: "The published version is of another model or breaks the rules; it is not followed.",
    level: "WARNING",
    keys: { error: text("what is wrong with it, field by field") },
  },
  node_start: {
    doc: "Training together begins.",
    keys: {
      node_id: text("name of this node"),
      repository: text("where the nodes meet"),
      installed,
      pending_deltas: int("deltas of earlier runs that no version is known to contain"),
    },
  },
  node_stop: {
    doc: "Training together has ended.",
    keys: { step, installed, unsent_deltas: int("deltas that are sent after the next start") },
  },
  node_waiting: {
    doc: "The repository cannot be reached for now; training goes on.",
    level: "WARNING",
    keys: { error, code, wait_s: float("seconds until the next try") },
  },
  node_blocked: {
    doc: "The repository refuses this node until somebody does something about it; training goes on.",
    level: "WARNING",
    keys: { error, code },
  },
  node_online: { doc: "The repository answers again.", keys: { repository: text("where the nodes meet") } },
  node_state_failed: {
    doc: "Something is wrong with the node's own files or local progress.",
    level: "WARNING",
    keys: { error },
  },
} as const satisfies EventDocs<DistributedEvents>;
