// Public surface of the hub server: a small server that speaks the Hugging Face Hub's API. Node only.

export type { Role } from "./auth/identity.js";
export { addToken } from "./auth/tokens.js";
export { HubError, type HubErrorCode } from "./errors.js";
export { formatLogEntry, type RequestLogEntry } from "./http/request-log.js";
export { defaultHubLimits, type HubLimits } from "./limits.js";
export { createHubServer, type HubServer, type HubServerOptions } from "./server.js";
export { checkHubStore, type StoreReport } from "./store/check.js";
