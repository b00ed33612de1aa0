// Which keys of a configuration belong to the run and which to each of its machines. A machine's own keys never travel:
// `init` leaves them out of the repository, and `join` ignores them there, since whoever may write to the repository
// must not choose paths, addresses and identities on the machines that read it.

/** Canonical paths. */
export const OWN_KEYS: ReadonlySet<string> = new Set([
  // Code to run: nobody else's business.
  "plugins",
  "run.output_dir",
  "run.device",
  "run.threads",
  "data.text_path",
  "data.dataset",
  "data.sources",
  "data.tokenizer",
  "data.cache_dir",
  "data.num_workers",
  "data.prefetch_factor",
  "data.pin_memory",
  "logging.file",
  "logging.json_file",
  "logging.sinks",
  "checkpoint.directory",
  "checkpoint.resume",
  "distributed.enabled",
  "distributed.role",
  "distributed.node_id",
  "distributed.repo_id",
  "distributed.endpoint",
  "distributed.token",
  "distributed.cache_dir",
  "distributed.state_dir",
]);
