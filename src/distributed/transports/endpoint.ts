// Which hub is called, and whether a token goes there. A token belongs to the host that it was set for: one from the
// environment to the endpoint from the environment, one from the configuration to the endpoint from the
// configuration, and without an endpoint beside it to the official hub alone.

import { ConfigError } from "../../util/errors.js";

export const OFFICIAL_HUB = "https://huggingface.co";

export interface HubSettings {
  /** `distributed.endpoint`. */
  readonly endpointKey?: string | null | undefined;
  /** `distributed.token`. */
  readonly tokenKey?: string | null | undefined;
  /** `HF_ENDPOINT` and `HF_TOKEN` are read from it. */
  readonly env?: Readonly<Record<string, string | undefined>>;
}

export interface HubAddress {
  /** Without a slash at the end. */
  readonly endpoint: string;
  readonly token: string | undefined;
  /** Why a token that is set is not sent. */
  readonly withheld: string | undefined;
}

/** Throws ConfigError for an address that is none, and for a token of another kind. */
export function resolveHub({ endpointKey, tokenKey, env = {} }: HubSettings): HubAddress {
  const fromKey = present(endpointKey);
  const fromEnv = present(env.HF_ENDPOINT);
  const endpoint =
    fromKey !== undefined
      ? checkEndpoint(fromKey, "distributed.endpoint")
      : fromEnv !== undefined
        ? checkEndpoint(fromEnv, "HF_ENDPOINT")
        : OFFICIAL_HUB;
  const isFromConfig = present(tokenKey) !== undefined;
  const token = present(tokenKey) ?? present(env.HF_TOKEN);
  if (token === undefined) return { endpoint, token, withheld: undefined };
  const [tokenName, endpointName, owner] = isFromConfig
    ? ["distributed.token", "distributed.endpoint", fromKey]
    : ["HF_TOKEN", "HF_ENDPOINT", fromEnv];
  if (!isSentTo(endpoint, owner)) {
    const withheld =
      `${tokenName} is not sent to ${new URL(endpoint).host}: it was not set for that host; ` +
      `set ${endpointName} beside it`;
    return { endpoint, token: undefined, withheld };
  }
  return { endpoint, token: checkToken(token, tokenName), withheld: undefined };
}

/** `owner` is the endpoint that came from the same place as the token. */
function isSentTo(endpoint: string, owner: string | undefined): boolean {
  const { origin } = new URL(endpoint);
  if (owner === undefined) return origin === OFFICIAL_HUB;
  return URL.canParse(owner) && new URL(owner).origin === origin;
}

function present(text: string | null | undefined): string | undefined {
  const trimmed = text?.trim();
  return trimmed === undefined || trimmed === "" ? undefined : trimmed;
}

function checkEndpoint(text: string, name: string): string {
  const problem = (what: string, value?: string) =>
    new ConfigError(
      `${name}${value === undefined ? "" : ` ${JSON.stringify(value)}`} ${what}; ` +
        `give an address such as ${OFFICIAL_HUB} or http://127.0.0.1:8080`,
      { code: "distributed.endpoint" },
    );
  if (!URL.canParse(text)) throw problem("is not an address", text.slice(0, 200));
  const url = new URL(text);
  // The value may hold a password, so it is not repeated.
  if (url.username !== "" || url.password !== "") throw problem("must not hold a user name or password");
  if (url.protocol !== "https:" && url.protocol !== "http:")
    throw problem("is neither http nor https", url.protocol);
  if (url.search !== "" || url.hash !== "") throw problem('must not hold "?" or "#"');
  return `${url.origin}${url.pathname.replace(/\/+$/, "")}`;
}

function checkToken(token: string, name: string): string {
  if (/^hf_[\x21-\x7e]+$/.test(token)) return token;
  throw new ConfigError(`${name} is not an access token of a hub: those begin with hf_`, {
    code: "distributed.token",
  });
}
