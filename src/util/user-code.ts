// Code that users bring: what it throws is theirs to mend, not a bug of this program.

import { type DataError, type ModelError, SpeedtronicError, type TrainingError } from "./errors.js";

type Kind = typeof ModelError | typeof DataError | typeof TrainingError;

/** The error for what `what` threw; errors of ours pass as they are. */
export function foreignError(Kind: Kind, code: string, what: string, thrown: unknown): Error {
  if (thrown instanceof SpeedtronicError) return thrown;
  const message = thrown instanceof Error ? thrown.message : String(thrown);
  return new Kind(`${what} failed: ${message}`, { code, details: { what }, cause: thrown });
}
