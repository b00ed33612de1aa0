// Section `distributed`: training together with other machines through one repository. All rules hold even when
// the section is disabled, so that a file can be prepared and checked before it is used.

import * as z from "zod";
import { nodeIdProblem } from "../../util/node-id.js";
import { choice, custom, defineSection, field, flag, orNull, real, text, whole } from "../field.js";
import { REDACTED, Secret } from "../secret.js";

// The marker comes back when a saved configuration is loaded again; the secret itself was never saved.
const token = z
  .union([z.string(), z.instanceof(Secret)])
  .nullable()
  .transform((value): Secret | null => {
    if (value === null || value instanceof Secret) return value;
    return value === REDACTED || value === "" ? null : new Secret(value);
  });

const nodeId = z
  .string()
  .trim()
  .refine((id) => nodeIdProblem(id) === undefined);

export const distributed = defineSection({
  name: "distributed",
  summary: "Training with other machines (DumbDiLoCo).",
  shape: {
    enabled: field(flag(), false, "Whether this run exchanges updates with others."),
    mode: field(choice(["dumb_diloco", "single"]), "dumb_diloco", "Protocol."),
    role: field(choice(["single", "master", "worker"]), "single", "Part that this node plays."),
    node_id: field(
      orNull(
        custom(
          nodeId,
          'a name of at most 64 letters, digits, ".", "_" and "-" that can be a folder anywhere',
        ),
      ),
      null,
      "Name of this node; null: a random one, which stays.",
    ),
    collaborators: field(
      custom(z.array(z.string().regex(/\S/)), "a list of names that are not blank"),
      [],
      "Accounts that need access; it is given in the settings of the hub.",
    ),
    inner_steps: field(whole({ min: 1 }), 500, "Local steps between two exchanges."),
    poll_interval: field(real({ above: 0 }), 60, "Seconds between two looks at the repository."),
    outer_lr: field(real({ above: 0 }), 0.7, "Learning rate of the outer optimizer."),
    outer_momentum: field(real({ min: 0, below: 1 }), 0.9, "Nesterov momentum of the outer optimizer."),
    repo_id: field(
      orNull(text()),
      null,
      "Repository where the nodes meet: org/name on a hub, file:PATH for a shared folder, or memory:NAME within one process.",
    ),
    token: field(orNull(custom(token, "text")), null, "Access token; it appears in no output.", {
      secret: true,
    }),
    cache_dir: field(text(), ".speedtronic/hub", "Download cache, relative to the working directory."),
    state_dir: field(text(), ".speedtronic/diloco", "State of this node, relative to run.output_dir."),
    retry_initial: field(real({ above: 0 }), 1, "Seconds before the first retry."),
    retry_max: field(real({ above: 0 }), 60, "Longest wait between retries, in seconds."),
    retry_attempts: field(whole({ min: 1 }), 6, "Attempts before a request is given up."),
    reset_inner_optimizer: field(flag(), false, "Clear the optimizer's moments after each exchange."),
    async_delta_upload: field(flag(), true, "Upload while training goes on."),
    delta_upload_queue_size: field(whole({ min: 1, max: 1 }), 1, "Uploads that may wait; only 1 is defined."),
    delta_upload_overflow: field(choice(["skip"]), "skip", "What a full queue does with a new upload."),
    delta_upload_shutdown_timeout: field(real({ above: 0 }), 5, "Seconds to wait for an upload at the end."),
    async_global_poll: field(flag(), true, "Download new versions while training goes on."),
    endpoint: field(orNull(text()), null, "Address of the hub; null: HF_ENDPOINT, or else the official one."),
    commits_per_hour: field(
      whole({ min: 1 }),
      100,
      "Commits that this node makes within an hour at most; further ones wait.",
    ),
    outer_momentum_warmup_rounds: field(
      whole({ min: 0 }),
      50,
      "Rounds over which the outer momentum grows from 0 to its value; 0: full from the start.",
    ),
    merge: field(
      choice(["tokens", "python"]),
      "tokens",
      "Weights of a round: by tokens trained, per node first; or each file the same.",
    ),
    staleness_limit: field(
      whole({ min: 0 }),
      20,
      "Versions by which the base of an update may be behind the newest; older ones are left out.",
    ),
    staleness_discount: field(
      real({ above: 0, max: 1 }),
      0.95,
      "Factor on the weight of an update for each version that its base is behind; 1: none.",
    ),
    clip_factor: field(
      orNull(real({ above: 0 })),
      3,
      "Updates longer than this many times the running median are shortened to it; null: never.",
    ),
    quorum: field(
      orNull(whole({ min: 1 })),
      null,
      "Nodes whose updates start a round; null: as many as took part in the last rounds.",
    ),
    grace_seconds: field(
      real({ min: 0 }),
      600,
      "Seconds after the first waiting update at which a round starts without the quorum.",
    ),
    keep_versions: field(
      whole({ min: 0 }),
      1000,
      "Versions for which weights and consumed updates stay in the repository.",
    ),
  },
  checks: [
    {
      at: "retry_max",
      needs: ["retry_initial", "retry_max"],
      test: ({ retry_initial, retry_max }) =>
        retry_max >= retry_initial
          ? undefined
          : `${retry_max} is less than retry_initial ${retry_initial}; raise it or lower retry_initial`,
    },
    {
      at: "repo_id",
      needs: ["enabled", "repo_id"],
      test: ({ enabled, repo_id }) =>
        enabled && (repo_id === null || repo_id.trim() === "")
          ? "is needed when distributed.enabled is true; name the repository, or disable the section"
          : undefined,
    },
    {
      at: "mode",
      needs: ["enabled", "mode"],
      test: ({ enabled, mode }) =>
        enabled && mode !== "dumb_diloco"
          ? `"${mode}" cannot be enabled; use "dumb_diloco", or set distributed.enabled to false`
          : undefined,
    },
  ],
});
