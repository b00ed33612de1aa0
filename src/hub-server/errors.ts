// What the hub answers when it refuses: a status, the code header that the clients look at, and a message for
// people. Not for mistakes in starting the server, which are ConfigError.

import { SpeedtronicError } from "../util/errors.js";

/** Values of the `X-Error-Code` header. The official clients know the first three. */
export type HubErrorCode =
  | "RepoNotFound"
  | "RevisionNotFound"
  | "EntryNotFound"
  | "NotFound"
  | "InvalidRequest"
  | "InvalidCredentials"
  | "Forbidden"
  | "Conflict"
  | "HeadMoved"
  | "TooLarge"
  | "Stalled"
  | "NotSupported"
  | "NoSpace"
  | "Internal";

export interface HubErrorExtras {
  /** Further fields of the JSON body. */
  readonly body?: Readonly<Record<string, unknown>>;
  readonly headers?: Readonly<Record<string, string>>;
  readonly cause?: unknown;
}

export class HubError extends SpeedtronicError {
  readonly exitCode = 6;
  readonly status: number;
  readonly errorCode: HubErrorCode;
  readonly body: Readonly<Record<string, unknown>>;
  readonly headers: Readonly<Record<string, string>>;

  constructor(status: number, errorCode: HubErrorCode, message: string, extras: HubErrorExtras = {}) {
    super(message, {
      code: `hub.${errorCode.replaceAll(/(?<=[a-z])[A-Z]/g, (letter) => `_${letter}`).toLowerCase()}`,
      cause: extras.cause,
      details: { status },
    });
    this.status = status;
    this.errorCode = errorCode;
    this.body = extras.body ?? {};
    this.headers = extras.headers ?? {};
  }
}

export function badRequest(message: string): HubError {
  return new HubError(400, "InvalidRequest", message);
}

export function tooLarge(message: string): HubError {
  return new HubError(413, "TooLarge", message);
}

/** The same words whether the repository is missing or hidden from the caller. */
export function repoNotFound(id: string): HubError {
  return new HubError(404, "RepoNotFound", `Repository not found: ${id}`);
}

export function systemCode(error: unknown): string | undefined {
  const code = error instanceof Error ? (error as NodeJS.ErrnoException).code : undefined;
  return typeof code === "string" ? code : undefined;
}
