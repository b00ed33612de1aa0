// Log levels of messages. They order messages for people and have no bearing on metrics.

export type LogLevel = "DEBUG" | "INFO" | "WARNING" | "ERROR";

const rank: Readonly<Record<LogLevel, number>> = { DEBUG: 10, INFO: 20, WARNING: 30, ERROR: 40 };

const aliases: Readonly<Record<string, LogLevel>> = {
  WARN: "WARNING",
  FATAL: "ERROR",
  CRITICAL: "ERROR",
  NOTSET: "DEBUG",
};

/** Reads a level in any case, with Python's other spellings; `undefined` if it is none. */
export function parseLogLevel(name: string): LogLevel | undefined {
  const upper = name.trim().toUpperCase();
  if (Object.hasOwn(rank, upper)) return upper as LogLevel;
  return Object.hasOwn(aliases, upper) ? aliases[upper] : undefined;
}

/** Whether a message of `level` passes a threshold. */
export function isLevelEnabled(level: LogLevel, threshold: LogLevel): boolean {
  return rank[level] >= rank[threshold];
}
