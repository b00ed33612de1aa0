// Events of training together with other machines. The five `delta_upload…` names and `outer_step` are Python
// Speedtronic's, with its keys first; keys below the blank line and all other events are added.
// Long because it is one list.
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
    peers?: number;
  };
  global_fetch_failed: {
    outer_step: number;
    error: string;
    is_permanent: boolean;
  };
  data_leases: {
    mode: string;
    reason: string | null;
    outer_step: number | null;
    shard_count: number | null;
    shards: number;
    epoch: number;
    corpus: string | null;
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
  node_id_shared: {
    node_id: string;
    path: string;
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
  master_start: {
    master_id: string;
    repository: string;
    outer_step: number;
    merge: string;
    outer_lr: number;
    outer_momentum: number;
    outer_momentum_warmup_rounds: number;
    staleness_limit: number | null;
    staleness_discount: number;
    clip_factor: number | null;
    quorum: number | null;
    grace_seconds: number;
    keep_versions: number;
  };
  master_stop: {
    outer_step: number;
    published: number;
  };
  master_failed: {
    error: string;
    code: string;
  };
  master_claimed: {
    outer_step: number;
    master_id: string;
    term: number;
    previous: string | null;
  };
  master_settings_changed: {
    outer_step: number;
    outer_lr: number;
    previous_outer_lr: number;
    outer_momentum: number;
    previous_outer_momentum: number;
  };
  master_restored: {
    outer_step: number;
    revision: string;
  };
  ledger_adopted: {
    outer_step: number;
    deltas: number;
  };
  fates_published: {
    outer_step: number;
    deltas: number;
  };
  version_published: {
    outer_step: number;
    revision: string;
    deltas: number;
    outer_lr?: number;
    outer_momentum?: number;
  };
  publish_trouble: {
    outer_step: number;
    problem: string;
    error: string;
  };
  publish_failed: {
    outer_step: number;
    error: string;
  };
  aggregator_waiting: {
    problem: string;
    error: string;
    wait_ms: number;
  };
  delta_rejected: {
    path: string;
    node_id: string;
    fate: string;
    reason: string;
  };
  delta_unreadable: {
    path: string;
    error: string;
  };
  delta_path_skipped: {
    path: string;
    reason: string;
  };
}

const step = int("local step");
const outerStep = int("number of the version");
const path = text("path of the delta in the repository");
const error = text("what went wrong");
const code = text("stable name of the problem");
const masterId = text("name of the master");
const nodeId = text("node that sent it");
const revision = text("the repository's name of the commit");
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
      reason: text("zero, non_finite, not_written (its steps go into the next), or file_missing"),
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
      peers: int("other nodes whose deltas the last versions decided on; absent if no ledger is published"),
    },
  },
  global_fetch_failed: {
    doc: "A version's weights could not be fetched, or do not fit; training goes on without them.",
    level: "WARNING",
    keys: { outer_step: outerStep, error, is_permanent: flag("this version is not tried again") },
  },
  data_leases: {
    doc: "Which part of the data this node trains on from now on.",
    keys: {
      mode: text(
        "leases: what is leased to it; free: what nobody has, until it gets a lease; walk: all of its data, in an order of its own; own: as a run alone",
      ),
      reason: text(
        "why it has no lease: no_version, no_leases, other_corpus, damaged_leases, not_leased, no_shards; resumed: as the checkpoint says; null: it has one",
      ),
      outer_step: int("version whose record says so; null: none does"),
      shard_count: int("shards that the data is cut into; null for own"),
      shards: int("shards that wait for it"),
      epoch: int("epoch of its next sample"),
      corpus: text("hash of what its samples depend on; only nodes with the same one share leases"),
    },
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
  node_id_shared: {
    doc: "Another process began to send deltas under this node's name; it is the one that stops. Give one of the two another distributed.node_id.",
    level: "WARNING",
    keys: { node_id: text("name that both have"), path: text("delta that the other one sent") },
  },
  node_online: { doc: "The repository answers again.", keys: { repository: text("where the nodes meet") } },
  node_state_failed: {
    doc: "Something is wrong with the node's own files or local progress.",
    level: "WARNING",
    keys: { error },
  },
  master_start: {
    doc: "A master begins to publish versions, with these rules for a round.",
    keys: {
      master_id: masterId,
      repository: text("where the nodes meet"),
      outer_step: int("newest version"),
      merge: text("tokens, or python: each file the same"),
      outer_lr: float("learning rate of the outer optimizer"),
      outer_momentum: float("its momentum, after the warm-up"),
      outer_momentum_warmup_rounds: int("rounds over which it grows from 0"),
      staleness_limit: int("versions by which a delta may be behind; null: any"),
      staleness_discount: float("factor on its weight for each of them"),
      clip_factor: float("multiple of the median length above which deltas are shortened; null: never"),
      quorum: int("nodes that start a round; null: as many as took part in the last ones"),
      grace_seconds: float("longest wait for the quorum"),
      keep_versions: int("versions that stay in the repository"),
    },
  },
  master_stop: {
    doc: "A master has ended.",
    keys: { outer_step: int("newest version"), published: int("versions that it published") },
  },
  master_failed: {
    doc: "The master cannot go on; where it trains too, it trains on as a worker.",
    level: "WARNING",
    keys: { error, code },
  },
  master_claimed: {
    doc: "The repository says that this master publishes from now on.",
    keys: {
      outer_step: int("newest version"),
      master_id: masterId,
      term: int("how many masters the run has had"),
      previous: text("who published before; python: a master without a name; null: nobody"),
    },
  },
  master_settings_changed: {
    doc: "The rounds of this master differ from the one that made the newest version.",
    keys: {
      outer_step: int("newest version"),
      outer_lr: float("learning rate of the outer optimizer from now on"),
      previous_outer_lr: float("the one that made the newest version"),
      outer_momentum: float("momentum that would have made the newest version now"),
      previous_outer_momentum: float("the one that made it"),
    },
  },
  master_restored: {
    doc: "A version of this master whose answer was lost is in the repository; it goes on from there.",
    level: "WARNING",
    keys: { outer_step: outerStep, revision },
  },
  ledger_adopted: {
    doc: "A run without a ledger was taken over: deltas that its versions may contain count as decided.",
    keys: { outer_step: int("newest version"), deltas: int("deltas that are decided by it") },
  },
  fates_published: {
    doc: "Nodes were told what became of refused deltas without a new version: no round came in time.",
    keys: { outer_step: int("version whose ledger says so"), deltas: int("deltas refused") },
  },
  version_published: {
    doc: "A version is in the repository.",
    keys: {
      outer_step: outerStep,
      revision,
      deltas: int("deltas in its sum"),
      outer_lr: float("outer learning rate of this round"),
      outer_momentum: float("outer momentum of this round"),
    },
  },
  publish_trouble: {
    doc: "A publication met a conflict or a lost answer, which is being resolved.",
    level: "WARNING",
    keys: { outer_step: outerStep, problem: text("kind of the trouble"), error },
  },
  publish_failed: {
    doc: "A version was not published; its deltas wait for the next round.",
    level: "WARNING",
    keys: { outer_step: outerStep, error },
  },
  aggregator_waiting: {
    doc: "The repository cannot be reached for now; the master tries again.",
    level: "WARNING",
    keys: { problem: text("kind of the trouble"), error, wait_ms: int("milliseconds until the next try") },
  },
  delta_rejected: {
    doc: "A delta will not be added.",
    level: "WARNING",
    keys: {
      path,
      node_id: nodeId,
      fate: text("rejected"),
      reason: text("a code, and details after a colon"),
    },
  },
  delta_unreadable: {
    doc: "A delta could not be read for now; the next look tries again.",
    level: "WARNING",
    keys: { path, error },
  },
  delta_path_skipped: {
    doc: "A file among the deltas is none, by its path.",
    level: "WARNING",
    keys: { path, reason: text("what is wrong with the path") },
  },
} as const satisfies EventDocs<DistributedEvents>;
