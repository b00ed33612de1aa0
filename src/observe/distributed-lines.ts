// Events of training together in words for people, and what of them the status line shows.

import { escapeControls, formatDuration, formatGeneral } from "./number-text.js";

type Payload = Readonly<Record<string, unknown>>;

const safe = (value: unknown): string => escapeControls(String(value));

/** `3 steps`, `1 step`; nothing for what is no number. */
function count(value: unknown, one: string, many = `${one}s`): string {
  return typeof value === "number" ? `${value} ${value === 1 ? one : many}` : "";
}

const inBrackets = (parts: readonly string[]): string => {
  const present = parts.filter((text) => text !== "");
  return present.length === 0 ? "" : ` (${present.join(", ")})`;
};

const seconds = (value: unknown): string => (typeof value === "number" ? formatDuration(value) : "?");

function describeFate({ fate, outer_step, weight, reason, steps }: Payload): string {
  const what = `own delta of ${count(steps, "step")}`;
  if (fate === "applied" || fate === "merged") {
    const share = typeof weight === "number" ? ` with weight ${formatGeneral(weight, 3)}` : "";
    return `${what} is in version ${safe(outer_step)}${share}`;
  }
  if (fate === "unknown") return `${what}: no version says what became of it; its progress is in the weights`;
  const where = outer_step === undefined ? "" : ` by version ${safe(outer_step)}`;
  return `${what} was refused${where}: ${safe(reason ?? fate)}`;
}

function describeRules(p: Payload): string {
  const quorum = p.quorum === null ? "all recent nodes" : count(p.quorum, "node");
  const warmup =
    typeof p.outer_momentum_warmup_rounds === "number" && p.outer_momentum_warmup_rounds > 0
      ? ` (from 0 over ${p.outer_momentum_warmup_rounds} rounds)`
      : "";
  return [
    `publishing as ${safe(p.master_id)} to ${safe(p.repository)}, newest version ${safe(p.outer_step)}`,
    `outer lr ${safe(p.outer_lr)}, momentum ${safe(p.outer_momentum)}${warmup}, merge ${safe(p.merge)}, ` +
      `a round waits for ${quorum}, at most ${seconds(p.grace_seconds)}`,
  ].join("; ");
}

/** Events that are not here are shown with their keys. */
export const distributedSentences: Readonly<Record<string, (payload: Payload) => string>> = {
  node_start: (p) =>
    `node ${safe(p.node_id)} meets others in ${safe(p.repository)}${inBrackets([
      p.installed === null ? "no version installed yet" : `version ${safe(p.installed)} installed`,
      p.pending_deltas === 0 ? "" : `${count(p.pending_deltas, "delta")} of earlier runs open`,
    ])}`,
  node_stop: (p) =>
    p.unsent_deltas === 0
      ? `node ended at step ${safe(p.step)}, everything is sent`
      : `node ended at step ${safe(p.step)}; ${count(p.unsent_deltas, "delta")} will be sent after the next start`,
  node_waiting: (p) => `warning: no exchange for now, training goes on: ${safe(p.error)}`,
  node_blocked: (p) => `warning: the repository refuses this node, training goes on: ${safe(p.error)}`,
  node_id_shared: (p) =>
    `warning: another process sends as node ${safe(p.node_id)} too and was told to stop; give one of the two another distributed.node_id`,
  node_online: (p) => `${safe(p.repository)} answers again`,
  global_installed: (p) =>
    `step ${safe(p.step)}  version ${safe(p.outer_step)} installed${inBrackets([
      p.kept_deltas === 0 ? "" : `${count(p.kept_deltas, "own delta")} on top`,
      p.kept_steps === 0 ? "" : `${count(p.kept_steps, "newer step")} on top`,
    ])}`,
  delta_upload_queued: (p) => `step ${safe(p.step)}  delta of ${count(p.steps, "step")} waits to be sent`,
  delta_uploaded: (p) => `step ${safe(p.step)}  delta sent`,
  delta_upload_skipped: (p) =>
    `step ${safe(p.step)}  no delta taken, the one before is still being sent; its steps go into the next`,
  delta_upload_failed: (p) => `warning: a delta could not be sent and is kept: ${safe(p.error)}`,
  delta_decided: describeFate,
  master_start: describeRules,
  master_settings_changed: (p) =>
    `the rounds change: version ${safe(p.outer_step)} was made with outer lr ${safe(p.previous_outer_lr)} and momentum ` +
    `${safe(p.previous_outer_momentum)}, from now on they are ${safe(p.outer_lr)} and ${safe(p.outer_momentum)}`,
  master_stop: (p) =>
    `master ended at version ${safe(p.outer_step)}, having published ${count(p.published, "version")}`,
  master_failed: (p) => `warning: this master ends: ${safe(p.error)}`,
  version_published: (p) =>
    p.deltas === 0
      ? `version ${safe(p.outer_step)} published`
      : `version ${safe(p.outer_step)} published: ${count(p.deltas, "delta")}, outer lr ${safe(p.outer_lr)}, ` +
        `momentum ${typeof p.outer_momentum === "number" ? formatGeneral(p.outer_momentum, 3) : "?"}`,
  fates_published: (p) =>
    `told why ${count(p.deltas, "delta")} ${p.deltas === 1 ? "was" : "were"} refused, after version ${safe(p.outer_step)}`,
  publish_trouble: (p) => `warning: publishing version ${safe(p.outer_step)}: ${safe(p.error)}`,
  publish_failed: (p) => `warning: version ${safe(p.outer_step)} was not published: ${safe(p.error)}`,
  aggregator_waiting: (p) =>
    `warning: trying again in ${seconds(typeof p.wait_ms === "number" ? p.wait_ms / 1000 : undefined)}: ${safe(p.error)}`,
  delta_rejected: (p) => `delta ${safe(p.path)} is not added: ${safe(p.reason)}`,
};

/** Events that tell people nothing new: another one says it, or it is everyday business of a shared repository. */
export function isSilent(event: string, { problem }: Payload): boolean {
  return event === "outer_step" || (event === "publish_trouble" && problem === "conflict");
}

/** Part of the status line that tells of the others. */
export class FleetStatus {
  #isNode = false;
  #isMaster = false;
  #version: number | undefined;
  #queued = 0;
  #peers: number | undefined;

  /** True if the text changed. */
  update(event: string, payload: Payload): boolean {
    const before = this.text();
    switch (event) {
      case "node_start":
        this.#isNode = true;
        if (typeof payload.installed === "number") this.#version = payload.installed;
        break;
      case "master_start":
        this.#isMaster = true;
        if (typeof payload.outer_step === "number") this.#version = payload.outer_step;
        break;
      case "master_failed":
        this.#isMaster = false;
        break;
      case "global_installed":
        this.#version = Number(payload.outer_step);
        if (typeof payload.peers === "number") this.#peers = payload.peers;
        break;
      case "delta_upload_queued":
        this.#queued += 1;
        break;
      case "delta_uploaded":
        this.#queued = Math.max(0, this.#queued - 1);
        break;
      default:
        return false;
    }
    return this.text() !== before;
  }

  /** Undefined for a run that is alone. */
  text(): string | undefined {
    if (!this.#isNode) return undefined;
    return [
      this.#isMaster ? "master" : "worker",
      this.#version === undefined ? "v–" : `v${this.#version}`,
      ...(this.#queued > 0 ? [`${this.#queued} to send`] : []),
      ...(this.#peers === undefined ? [] : [`${this.#peers} ${this.#peers === 1 ? "peer" : "peers"}`]),
    ].join(" ");
  }
}
