// Every error the library throws on purpose. One class per audience: a user's mistake gets a class with a
// stable `code` and the CLI's exit code; a broken promise of our own gets `invariant()` and exit code 70.

/** Fields that a message refers to, for programs that want to react (never contains secrets). */
export type ErrorDetails = Readonly<Record<string, unknown>>;

export interface ErrorOptions {
  /** Stable identifier such as `config.unknown_key`. */
  code: string;
  details?: ErrorDetails;
  cause?: unknown;
}

/** Base of all typed errors. `exitCode` is what the CLI exits with. */
export abstract class SpeedtronicError extends Error {
  abstract readonly exitCode: number;
  readonly code: string;
  readonly details: ErrorDetails;

  constructor(message: string, options: ErrorOptions) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.name = new.target.name;
    this.code = options.code;
    this.details = options.details ?? {};
  }
}

/** Wrong flags or a wrong configuration file. */
export class ConfigError extends SpeedtronicError {
  readonly exitCode = 2;
}

/** A data source that cannot be read, or data that does not fit the model. */
export class DataError extends SpeedtronicError {
  readonly exitCode = 3;
}

/** A model that cannot be built or fed: shapes, dtypes, unknown inputs. */
export class ModelError extends SpeedtronicError {
  readonly exitCode = 3;
}

/** No checkpoint to resume, none that is intact, or the final save failed. */
export class CheckpointError extends SpeedtronicError {
  readonly exitCode = 4;
}

/** Training itself failed: non-finite loss or gradients, overflow. */
export class TrainingError extends SpeedtronicError {
  readonly exitCode = 5;
}

/** A bug of ours. Reaching one is always worth a report. */
export class InternalError extends SpeedtronicError {
  readonly exitCode = 70;
}

/** Throws {@link InternalError} unless `condition` holds. For our own invariants, never for user input. */
export function invariant(condition: unknown, message: string): asserts condition {
  if (!condition) throw new InternalError(message, { code: "internal.invariant" });
}
