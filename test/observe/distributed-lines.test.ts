// What people read of training together.

import { describe, expect, it } from "vitest";
import { FleetStatus } from "../../src/observe/distributed-lines.js";
import { Narrator } from "../../src/observe/narrator.js";
import { renderStatus, StatusState } from "../../src/observe/status-line.js";

const narrator = new Narrator();

describe("lines", () => {
  it.each<[string, Record<string, unknown>, string[]]>([
    [
      "node_start",
      { node_id: "a", repository: "lab/run at http://h", installed: null, pending_deltas: 1 },
      ["node a meets others in lab/run at http://h (no version installed yet, 1 delta of earlier runs open)"],
    ],
    [
      "global_installed",
      { outer_step: 3, step: 40, kept_deltas: 1, kept_steps: 7 },
      ["step 40  version 3 installed (1 own delta on top, 7 newer steps on top)"],
    ],
    [
      "global_installed",
      { outer_step: 3, step: 40, kept_deltas: 0, kept_steps: 0 },
      ["step 40  version 3 installed"],
    ],
    [
      "delta_decided",
      { path: "p", steps: 10, fate: "applied", outer_step: 3, weight: 0.25 },
      ["own delta of 10 steps is in version 3 with weight 0.25"],
    ],
    [
      "delta_decided",
      { path: "p", steps: 1, fate: "stale", outer_step: 3, weight: 0, reason: "stale: based on 1" },
      ["own delta of 1 step was refused by version 3: stale: based on 1"],
    ],
    [
      "version_published",
      { outer_step: 2, revision: "r", deltas: 4, outer_lr: 0.7, outer_momentum: 0.018 },
      ["version 2 published: 4 deltas, outer lr 0.7, momentum 0.018"],
    ],
    [
      "master_settings_changed",
      {
        outer_step: 2,
        outer_lr: 0.5,
        previous_outer_lr: 0.7,
        outer_momentum: 0.8,
        previous_outer_momentum: 0.9,
      },
      [
        "the rounds change: version 2 was made with outer lr 0.7 and momentum 0.9, from now on they are 0.5 and 0.8",
      ],
    ],
    ["outer_step", { outer_step: 2, deltas_found: 4, deltas_included: 4 }, []],
    ["publish_trouble", { outer_step: 2, problem: "conflict", error: "x" }, []],
    [
      "publish_trouble",
      { outer_step: 2, problem: "ambiguous", error: "x" },
      ["warning: publishing version 2: x"],
    ],
    ["delta_rejected", { path: "n\u001b[2J", reason: "empty" }, ["delta n\\x1b[2J is not added: empty"]],
  ])("%s", (event, payload, lines) => {
    expect(narrator.describe(event, payload)).toEqual(lines);
  });
});

describe("the status line", () => {
  it("tells role, version, what waits, and the others", () => {
    const status = new FleetStatus();
    const after = (event: string, payload: Record<string, unknown> = {}) => {
      status.update(event, payload);
      return status.text();
    };
    expect(after("delta_upload_queued")).toBe(undefined);
    expect(new FleetStatus().update("train_step", {})).toBe(false);
    const node = new FleetStatus();
    const next = (event: string, payload: Record<string, unknown> = {}) => {
      node.update(event, payload);
      return node.text();
    };
    expect(next("node_start", { installed: null })).toBe("worker v–");
    expect(next("global_installed", { outer_step: 0 })).toBe("worker v0");
    expect(next("delta_upload_queued")).toBe("worker v0 1 to send");
    expect(next("delta_uploaded")).toBe("worker v0");
    expect(next("global_installed", { outer_step: 1, peers: 3 })).toBe("worker v1 3 peers");
    expect(next("master_start", { outer_step: 1 })).toBe("master v1 3 peers");
    expect(next("master_failed")).toBe("worker v1 3 peers");
  });

  it("has it between loss and rate", () => {
    const state = new StatusState();
    state.update("train_start", { start_step: 0, target_step: 100 });
    state.update("train_step", { step: 10, loss: 2, lr: 0.1, tokens_per_sec: 1000, eta_s: 60 });
    expect(state.update("node_start", { installed: 4 })).toBe(true);
    const text = renderStatus(state, 100, false)
      .map((segment) => segment.text)
      .join("");
    expect(text).toContain("loss 2.0000  worker v4  lr 0.1");
  });
});
