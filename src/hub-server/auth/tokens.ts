// The token file: who may do what. One line per token, `NAME ROLE TOKEN [PATTERN,…]`; a token stands there as its
// SHA-256 (tokens are long and random, so a plain hash suffices) or in clear if only the owner can read the file.

import { createHash, randomBytes } from "node:crypto";
import { appendFile, open, readFile, stat } from "node:fs/promises";
import { ConfigError } from "../../util/errors.js";
import { HubError, systemCode } from "../errors.js";
import { anonymous, type Identity, localOwner, type Role } from "./identity.js";

/** The official JavaScript client refuses tokens without this prefix. */
const TOKEN = /^hf_[A-Za-z0-9]{20,200}$/;
const NAME = /^[A-Za-z0-9_](?:[A-Za-z0-9._-]{0,40}[A-Za-z0-9_])?$/;
const PATTERN = /^(?:\*|[A-Za-z0-9._*-]+\/[A-Za-z0-9._*-]+)$/;

export class TokenTable {
  readonly #byHash: ReadonlyMap<string, Identity>;

  constructor(byHash: ReadonlyMap<string, Identity>) {
    this.#byHash = byHash;
  }

  get size(): number {
    return this.#byHash.size;
  }

  /** Throws HubError 401 for a header that is not a known token. Without a header: the anonymous identity. */
  identify(authorization: string | undefined): Identity {
    if (authorization === undefined || authorization === "") return anonymous;
    const token = /^Bearer +(\S+)$/i.exec(authorization)?.[1];
    // By hash: how long the look-up takes tells nothing about the token.
    const identity = token === undefined ? undefined : this.#byHash.get(hashToken(token));
    if (identity !== undefined) return identity;
    throw new HubError(401, "InvalidCredentials", "Invalid credentials in Authorization header", {
      headers: { "WWW-Authenticate": 'Bearer realm="hub", error="invalid_token"' },
    });
  }
}

/** For a server that only its own machine can reach: whatever token a client sends is as good as none. */
export const openDoor = { identify: (): Identity => localOwner };

/** Throws ConfigError naming the line. Windows has no mode bits: there the folder's permissions have to do. */
export async function readTokenFile(path: string): Promise<TokenTable> {
  let text: string;
  let mode: number;
  try {
    text = await readFile(path, "utf8");
    mode = (await stat(path)).mode;
  } catch (error) {
    throw new ConfigError(`${path}: the token file cannot be read (${(error as Error).message})`, {
      code: "hub.token_file",
      cause: error,
    });
  }
  const table = new Map<string, Identity>();
  for (const [index, line] of text.split(/\r?\n/).entries()) {
    const words = line.replace(/#.*$/, "").trim().split(/\s+/);
    if (words[0] === "") continue;
    const { hash, isClear, identity } = parseLine(words, `${path}:${index + 1}`);
    if (isClear && process.platform !== "win32" && (mode & 0o077) !== 0) {
      throw new ConfigError(
        `${path}:${index + 1}: a token in clear, but others on this machine may read the file; run chmod 600 on it, or ` +
          `write sha256:${hash} instead`,
        { code: "hub.token_file" },
      );
    }
    if (table.has(hash)) throw fault(`${path}:${index + 1}`, "the same token as on an earlier line");
    table.set(hash, identity);
  }
  if (table.size === 0) throw fault(path, "holds no token; make one with `speedtronic hub token`");
  return new TokenTable(table);
}

/** Appends a new token (as its hash) to the file, which is made if needed, and returns it: it is not kept. */
export async function addToken(
  path: string,
  name: string,
  role: Role,
  patterns: readonly string[] = ["*"],
): Promise<string> {
  const token = `hf_${randomBytes(20).toString("hex")}`;
  const line = [name, role, `sha256:${hashToken(token)}`, patterns.join(",")];
  parseLine(line, `--name ${name}`);
  const separator = await missingLineEnd(path);
  await appendFile(path, `${separator}${line.join(" ")}\n`, { mode: 0o600 });
  return token;
}

function hashToken(token: string): string {
  return createHash("sha256").update(token).digest("hex");
}

function parseLine(words: readonly string[], place: string) {
  const [name = "", role, secret = "", patterns = "*", extra] = words;
  if (extra !== undefined)
    throw fault(place, `'${extra}' is one word too many (NAME ROLE TOKEN [PATTERN,PATTERN…])`);
  if (!NAME.test(name)) throw fault(place, `'${name}' is not a name (letters, digits, '.', '_', '-')`);
  if (role !== "read" && role !== "write")
    throw fault(place, `the role is '${role ?? ""}'; it must be read or write`);
  const repos = patterns.split(",");
  for (const pattern of repos) {
    if (!PATTERN.test(pattern))
      throw fault(place, `'${pattern}' is not a pattern such as * or lab/* or lab/run-1`);
  }
  const hashed = /^sha256:([0-9a-f]{64})$/.exec(secret)?.[1];
  const isClear = hashed === undefined;
  if (isClear && !TOKEN.test(secret)) {
    // Not quoted: a mistyped token is still nearly one.
    throw fault(
      place,
      "the third word must be sha256: and 64 hexadecimal digits, or hf_ and 20 to 200 letters and digits",
    );
  }
  return { hash: hashed ?? hashToken(secret), isClear, identity: { name, role, repos } satisfies Identity };
}

function fault(place: string, text: string): ConfigError {
  return new ConfigError(`${place}: ${text}`, { code: "hub.token_file" });
}

/** A last line without its end would swallow what is appended. */
async function missingLineEnd(path: string): Promise<string> {
  try {
    const handle = await open(path, "r");
    try {
      const { size } = await handle.stat();
      if (size === 0) return "";
      const last = Buffer.alloc(1);
      await handle.read(last, 0, 1, size - 1);
      return last.toString() === "\n" ? "" : "\n";
    } finally {
      await handle.close();
    }
  } catch (error) {
    if (systemCode(error) === "ENOENT") return "";
    throw error;
  }
}
