// Node only. Reads a `tokenizer.json` and tells one from another.

import { createHash } from "node:crypto";
import { readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import { ConfigError, DataError } from "../../util/errors.js";
import { JsonTokenizer } from "./json-tokenizer.js";

/**
 * The tokenizer of a file, or of the `tokenizer.json` in a folder.
 * @throws DataError for a file that is missing or describes no tokenizer
 */
export async function openTokenizer(path: string): Promise<JsonTokenizer> {
  let source: string;
  let file = path;
  try {
    if ((await stat(path)).isDirectory()) file = join(path, "tokenizer.json");
    source = await readFile(file, "utf8");
  } catch (cause) {
    throw new DataError(
      `data.tokenizer: ${file} cannot be read: ${cause instanceof Error ? cause.message : String(cause)}. ` +
        "Name a tokenizer.json, a folder that holds one, or a tokenizer that a plugin registers.",
      { code: "data.tokenizer_missing", details: { path: file }, cause },
    );
  }
  return new JsonTokenizer(source, file);
}

/** Equal for tokenizers of the same description, wherever it lies. */
export function tokenizerDigest(tokenizer: JsonTokenizer): string {
  return createHash("sha256").update(tokenizer.source).digest("hex");
}

/** The id of the mark that `data.end_of_text` names. @throws ConfigError if the tokenizer has no such token */
export function endOfTextId(tokenizer: unknown, token: string): number {
  const id = tokenizer instanceof JsonTokenizer ? tokenizer.idOf(token) : undefined;
  if (id !== undefined) return id;
  const why =
    tokenizer instanceof JsonTokenizer
      ? "is no token of data.tokenizer"
      : "needs a data.tokenizer with named tokens";
  throw new ConfigError(
    `data.end_of_text: ${JSON.stringify(token)} ${why}. Name one of the added tokens of a tokenizer.json, or use null.`,
    { code: "config.end_of_text", details: { token } },
  );
}
