// Every behaviour of the Python system that can be switched back on, in one table: the schema, `validate` and
// docs/differences.md derive from it. Faults that nobody can want back are listed in differences.ts instead.

export interface CompatSwitch {
  readonly key: string;
  /** What happens while the switch is on. */
  readonly meaning: string;
  /** What happens while it is off. */
  readonly instead: string;
  readonly default: boolean;
  readonly python: boolean;
  /** Why the default is not the Python behaviour. */
  readonly reason: string;
}

export const compatSwitches = [
  {
    key: "decay_all_tensors",
    meaning: "Weight decay applies to every trainable tensor, norms and biases included.",
    instead: "Matrices decay, tensors of one dimension do not.",
    default: false,
    python: true,
    reason: "Pulling norm weights towards zero fights their purpose and regularises nothing.",
  },
  {
    key: "cautious_decay",
    meaning: "With optimizer.cautious, weight decay is held back too where it disagrees with the gradient.",
    instead: "Only the update is held back; weight decay always applies.",
    default: false,
    python: true,
    reason: "Decay follows no gradient, so that asking for its agreement makes it random.",
  },
  {
    key: "double_dropout",
    meaning: "Dropout is applied twice in a row to the attention branch of the reference model.",
    instead: "Dropout is applied once to each branch.",
    default: false,
    python: true,
    reason: "Two dropouts in a row drop more than model.dropout says.",
  },
  {
    key: "schedule_endpoints",
    meaning:
      "With a warm-up, the full rate is used by two updates in a row; the cosine reaches its floor only after the last update.",
    instead: "The full rate is used once, and the last update uses the floor.",
    default: false,
    python: true,
    reason: "A schedule that says where it ends should end there.",
  },
  {
    key: "text_stride",
    meaning:
      "Text samples do not overlap, so one token in block_size + 1 is never a target; a short last sample is always kept.",
    instead:
      "A sample begins with the last token of the one before, so that every token but the first is a target; data.drop_last also leaves out a short last sample.",
    default: false,
    python: true,
    reason: "Every transition of the text should be learnt from.",
  },
  {
    key: "microbatch_mean",
    meaning: "Each micro-batch of an update weighs the same, however few valid tokens it has.",
    instead: "The loss of an update is the mean over all its valid target tokens.",
    default: false,
    python: true,
    reason: "Loss and gradient should not depend on how a batch is split.",
  },
  {
    key: "synthetic_seeds",
    meaning: "Synthetic sample i is drawn from the generator seeded with data.seed + i.",
    instead: "Seed and index are mixed by a hash before they seed the generator.",
    default: false,
    python: true,
    reason: "Neighbouring seeds gave almost the same samples, and negative seeds failed.",
  },
  {
    key: "lr_metric_next",
    meaning: "The lr of a metric line is the rate of the next update.",
    instead: "It is the rate that produced the update the line reports.",
    default: false,
    python: true,
    reason: "A line should describe one update.",
  },
  {
    key: "outer_round",
    meaning:
      "A master publishes whatever it finds at each look: every file weighs the same, none is too old or too long, and the outer momentum is full from the first round.",
    instead:
      "distributed.merge, staleness_limit, staleness_discount, clip_factor, quorum, grace_seconds and outer_momentum_warmup_rounds decide.",
    default: false,
    python: true,
    reason:
      "Nodes of unequal speed counted the same, one bad node could spoil a round, and early momentum overshoots.",
  },
] as const satisfies readonly CompatSwitch[];

export type CompatSwitchKey = (typeof compatSwitches)[number]["key"];

/** The texts that stand for a setting of all switches. */
export const compatPresets = {
  none: (entry: CompatSwitch): boolean => entry.default,
  python: (entry: CompatSwitch): boolean => entry.python,
} as const;
