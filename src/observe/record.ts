// One event on its way from the logger to the sinks.

export interface EventRecord {
  readonly event: string;
  /** The logger's own frozen copy; each sink is given a further copy. */
  readonly payload: Readonly<Record<string, unknown>>;
  readonly time: Date;
  readonly elapsedS: number;
  readonly runId: string;
  /** How many events deep this one was emitted from inside a sink; 0 for the trainer's own. */
  readonly depth: number;
  /** Channel that must not get this record: the one it complains about. */
  readonly except?: object;
}

/** Nesting of the sink call in progress, shared by a logger and its channels. */
export interface EmissionScope {
  depth: number;
}
