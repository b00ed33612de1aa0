// Where this configuration differs from the Python system's on purpose, apart from the compatibility switches.
// docs/differences.md is generated from here and from compat-table.ts; a test compares both with the schema.

export interface DifferingDefault {
  readonly path: string;
  readonly python: string;
  readonly here: string;
  readonly reason: string;
}

/** Keys of both systems whose defaults differ. No switch of `compat` changes them; set the key. */
export const differingDefaults: readonly DifferingDefault[] = [
  {
    path: "scheduler.max_steps",
    python: "1000",
    here: "null",
    reason:
      "1000 also meant “not set”, so an explicit 1000 was overwritten. Null follows the step at which the run ends; any number is taken as it is.",
  },
  {
    path: "distributed.reset_inner_optimizer",
    python: "true",
    here: "false",
    reason:
      "Throwing away AdamW's moments after each exchange costs progress; keeping them is the usual practice.",
  },
];

export interface AddedKey {
  readonly path: string;
  readonly reason: string;
}

/** Keys that the Python system does not know; a file that uses one no longer loads there. */
export const addedKeys: readonly AddedKey[] = [
  {
    path: "run.threads",
    reason: "Results are bit-equal only on the same number of threads, so it can be fixed.",
  },
  { path: "model.mlp_width", reason: "The rounding rule of `d_ff` does not allow every width." },
  { path: "model.scaled_init", reason: "Deep models start steadier; the depth had no say." },
  { path: "model.extra", reason: "Other models have settings that the reference model does not." },
  { path: "plugins", reason: "A configuration could only name what comes along." },
  { path: "data.validation_fraction", reason: "There was no way to hold data out of training." },
  { path: "optimizer.muon_plus_mode", reason: "Training always normalised rows, then columns." },
  { path: "optimizer.muon_lr", reason: "Orthogonal updates want another rate than AdamW's." },
  { path: "optimizer.muon_weight_decay", reason: "Decay acts through the rate, which may differ." },
  { path: "optimizer.muon_scale", reason: "With AdamW's RMS one rate fits both rules." },
  { path: "optimizer.muon_routes", reason: "What Muon updates could be changed in code only." },
  { path: "optimizer.cautious_rescale", reason: "The published method rescales; it was left out." },
  { path: "optimizer.sgd_momentum", reason: "There was no gradient descent." },
  { path: "optimizer.sgd_nesterov", reason: "There was no gradient descent." },
  { path: "optimizer.non_finite", reason: "A diverged run went on and overwrote its good checkpoints." },
  {
    path: "optimizer.max_consecutive_skips",
    reason: "Skipping was unbounded, so a broken run could loop for ever.",
  },
  {
    path: "data.virtual_shards",
    reason: "All nodes trained on the same samples in the same order, or needed files cut by hand.",
  },
  { path: "data.sources", reason: "Data was one uncompressed text file, or a pickled object." },
  { path: "data.format", reason: "There was one format." },
  { path: "data.text_field", reason: "There were no records with fields." },
  { path: "data.template", reason: "There were no records with fields." },
  { path: "data.document_separator", reason: "A file was one row of characters without documents." },
  { path: "data.max_tokens", reason: "There was no data too large to be read to its end." },
  { path: "data.bad_record_limit", reason: "Nothing was left out: a bad byte ended the run." },
  { path: "data.cache_dir", reason: "Nothing was downloaded or tokenised ahead." },
  { path: "data.tokenizer", reason: "Text was bytes, unless a program handed a tokenizer over." },
  { path: "data.end_of_text", reason: "There were no documents to put a mark between." },
  {
    path: "distributed.outer_momentum_warmup_rounds",
    reason: "On short runs full momentum from the first round lost to training alone.",
  },
  { path: "distributed.merge", reason: "A node that did twice the work counted the same." },
  { path: "distributed.staleness_limit", reason: "Updates of any age were added." },
  { path: "distributed.staleness_discount", reason: "Old updates weighed as much as new ones." },
  { path: "distributed.clip_factor", reason: "One node with huge updates could spoil the model." },
  { path: "distributed.quorum", reason: "A round took whatever happened to be there." },
  { path: "distributed.grace_seconds", reason: "A quorum without an end would wait for dead nodes." },
  { path: "distributed.keep_versions", reason: "Nothing was ever deleted from the repository." },
  { path: "distributed.endpoint", reason: "The hub could only be chosen by an environment variable." },
  {
    path: "distributed.commits_per_hour",
    reason: "Hubs limit commits; a run that exceeds the limit stops exchanging.",
  },
  {
    path: "checkpoint.keep_best",
    reason: "Retention knew nothing of quality: an overfitting run deleted its best weights.",
  },
  {
    path: "checkpoint.keep_every",
    reason: "Milestones of a long run had to be copied away by hand before they were deleted.",
  },
  { path: "scheduler.decay_steps", reason: "There was no schedule that holds the full rate." },
  { path: "scheduler.decay_shape", reason: "There was no schedule that holds the full rate." },
  { path: "scheduler.moved_end", reason: "A run that was prolonged jumped to another curve." },
  { path: "logging.sinks", reason: "Other places than one log and one metrics file needed code." },
  { path: "logging.layer_norms", reason: "Only the norm of all gradients together was known." },
  { path: "evaluation", reason: "There was no evaluation during training." },
  { path: "sampling", reason: "There was no text generation." },
  { path: "lora", reason: "Only whole models could be trained." },
  { path: "compat", reason: "Holds the switches of the table above." },
];

export interface ReadingRule {
  readonly topic: string;
  readonly python: string;
  readonly here: string;
  readonly reason: string;
}

/** How files are read. */
export const readingRules: readonly ReadingRule[] = [
  {
    topic: "Types",
    python:
      'Unchecked: `"false"` is true, 2.5 passes as an integer, text in a number ends in a bare `TypeError`.',
    here: "Checked for every key; `name: 3` needs quotes.",
    reason: "A wrong type is a mistake, and it should be found before the run.",
  },
  {
    topic: "Problems",
    python: "The first one, without a place.",
    here: "All at once, each with file, line, column, key path and what was probably meant.",
    reason: "One look should be enough to repair a file.",
  },
  {
    topic: "Numbers",
    python: "`3e-4` is text; `010` is 8; `12:30` is 750.",
    here: "`3e-4` is a number; `010` and `12:30` are refused where a number belongs, and the message offers both readings.",
    reason: "Numbers are read as people write them, and never guessed.",
  },
  {
    topic: "Choices",
    python: "Some are lower-cased, some trimmed as well, some neither.",
    here: "All are matched without regard to case and surrounding blanks.",
    reason: "One rule for all.",
  },
  {
    topic: "`logging.level`",
    python: "An unknown level acts as INFO.",
    here: "Refused, with a suggestion.",
    reason: "A misspelt level should not decide what is printed.",
  },
  {
    topic: "Duplicate keys",
    python: "The last wins silently.",
    here: "Refused.",
    reason: "One of the two values would be lost without a word.",
  },
  {
    topic: "Root of the file",
    python: "`[]`, `0` and `false` count as an empty mapping.",
    here: "Only an empty file and null do.",
    reason: "A list at the root is a mistake.",
  },
  {
    topic: "File suffix",
    python: "`.yaml` and `.yml` are YAML, all others JSON.",
    here: "`.json` is JSON, all others YAML.",
    reason: "JSON is a part of YAML, so more files load and none loads differently.",
  },
  {
    topic: "Inline text as a path",
    python: "`--config` takes text that contains a colon for YAML.",
    here: "It always names a file.",
    reason: "A mistyped path should be reported as missing.",
  },
  {
    topic: "`{enabled: false}`",
    python: "True for `gradient_checkpointing` and `ooo_backprop`, as a mapping that is not empty.",
    here: "Means what it says, for these two and `compile`.",
    reason: "Nobody who writes it means true.",
  },
  {
    topic: "Two checkpointing flags",
    python: "On if either the root's or the model's flag is on.",
    here: "The root's counts if it is set, else the model's.",
    reason: "An explicit false must be able to switch a thing off.",
  },
  {
    topic: "`logging.every_steps: 1` beside `run.log_every`",
    python: "1 is taken for “not set”.",
    here: "What is written counts.",
    reason: "As with the 1000 of the schedule.",
  },
  {
    topic: "`data.target_batch_size` left out",
    python: "1, which any larger `micro_batch_size` contradicts.",
    here: "Follows `micro_batch_size`.",
    reason: "The default should not be an error.",
  },
  {
    topic: "`run.output_dir` left out",
    python: "`runs`, whatever the run is called: all runs overwrite one another.",
    here: "`runs/NAME` where `run.name` is set, else `runs`.",
    reason: "A run that has a name should not share its folder.",
  },
  {
    topic: "Contradictions",
    python: "Ignored, or found in the first forward pass.",
    here: "Refused: `data.vocab_size` and `model.vocab_size`, `precision.dtype` and `precision.mode`, a block longer than the context, an odd head width, an MLP of width 0, no data source.",
    reason: "What cannot work, or cannot all be true, is found before the run.",
  },
  {
    topic: "Secrets",
    python: "Printed unless asked otherwise; `<redacted>` loads as a token.",
    here: "Never printed, written or quoted in messages; `<redacted>` reads as unset.",
    reason: "A saved configuration must be safe to share and to load.",
  },
  {
    topic: "`distributed.node_id`",
    python: "Checked without surrounding blanks, stored with them.",
    here: 'Stored without; letters, digits, ".", "_" and "-" only, and a random name where none is given.',
    reason: "What is checked should be what is used, and a name is a folder on machines of every kind.",
  },
];

/** The command line. */
export const commandLineRules: readonly ReadingRule[] = [
  {
    topic: "Exit codes",
    python: "2 for nearly everything, 1 and a traceback for the rest.",
    here: "By cause: 1 what the system refused, 2 flags and configuration, 3 data and model, 4 checkpoints, 5 training, 70 a bug, 130 and 143 signals; 6 is kept for other machines.",
    reason: "Scripts can tell what happened.",
  },
  {
    topic: "`--max-steps N`",
    python: "Sets the end of the run and of the schedule, unchecked.",
    here: "Sets the end of the run (before `data.max_steps`), checked; the schedule follows unless `scheduler.max_steps` is set.",
    reason: "A schedule that was fixed on purpose keeps its curve when a run is prolonged.",
  },
  {
    topic: "A resume whose schedule ends elsewhere",
    python: "Is on the new curve from its second update on, with a jump of the rate.",
    here: "Goes on from the rate where it was, as `scheduler.moved_end` says.",
    reason: "A run should be prolonged without a shock.",
  },
  {
    topic: "Shortened options (`--conf`)",
    python: "Accepted.",
    here: "Refused, with the full name as a suggestion.",
    reason: "A shortened option can change its meaning when options are added.",
  },
  {
    topic: "`--set key.path=value`, `--version`, `--trace`",
    python: "Do not exist.",
    here: "Exist; `--set` has the same checks and suggestions as a file.",
    reason: "Trying a value should not need a new file.",
  },
];

/** Faults that no switch brings back. */
export const notReproduced: readonly ReadingRule[] = [
  {
    topic: "AdamW leaves out the matrices of attention and MLP",
    python: "They keep their initial values.",
    here: "Every trainable tensor is optimised.",
    reason: "The model does not learn otherwise.",
  },
  {
    topic: "Clipping",
    python: "The norm includes gradients that are never cleared.",
    here: "The norm is that of the gradients which are applied.",
    reason: "The stale part grows and shrinks every update.",
  },
  {
    topic: "A run that has reached its target",
    python: "Rewrites its checkpoint.",
    here: "Leaves its checkpoints alone.",
    reason: "Nothing has changed.",
  },
  {
    topic: "Order of shuffling",
    python: "Drawn from the global random stream.",
    here: "A function of `data.seed`, epoch and position.",
    reason: "Exact resume is impossible otherwise.",
  },
  {
    topic: "Initial weights and dropout",
    python: "Drawn from PyTorch's global generator, in the order in which they are asked for.",
    here: "Functions of `run.seed` and the parameter's name, or of seed, micro-batch and place in the model. The distributions are the same, the numbers are not.",
    reason: "A resume must repeat them, and adding a layer should not change the others.",
  },
  {
    topic: "Text with a vocabulary below 256",
    python: "Bytes wrap around, so that several become one token.",
    here: "Refused when a byte of the text does not fit, naming the byte and its place.",
    reason: "A text is not to be garbled without a word.",
  },
  {
    topic: "Rows without a visible key",
    python: "Give NaN.",
    here: "Give zeros.",
    reason: "One padded row must not poison a batch.",
  },
];
