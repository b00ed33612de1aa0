// What stands in the `manifest.json` of a folder of prepared ids, and reading it. Written last: a folder without one holds
// nothing that counts.

import * as z from "zod";
import { DataError } from "../../util/errors.js";

export const manifestName = "manifest.json";
export const documentsName = "documents.bin";
const formatName = "speedtronic-tokens";

const count = z.int().min(0);
const sha256 = z.string().regex(/^[0-9a-f]{64}$/);
/** No path: nothing outside the folder is opened. */
const fileName = z.string().regex(/^[A-Za-z0-9][A-Za-z0-9._-]*$/);

const manifestSchema = z.object({
  format: z.literal(formatName),
  version: z.literal(1),
  /** Of each id, little-endian. */
  dtype: z.enum(["uint16", "uint32"]),
  tokens: count,
  documents: count,
  vocab_size: z.int().min(1),
  end_of_text: z.nullable(count),
  /** Equal for tokenizers that give the same ids. */
  tokenizer: z.string(),
  /** Of the documents: see `DocumentSource.fingerprint`. */
  source: z.string(),
  /** Ids that were asked for at most; null: all. */
  max_tokens: z.nullable(z.int().min(1)),
  /** Changes when an id or the end of a document does: a hash over the hashes below and the dtype. */
  content_sha256: sha256,
  tokens_per_shard: z.int().min(1),
  shards: z.array(z.object({ file: fileName, tokens: count, sha256 })),
  /** Ids of each document as uint32, little-endian. */
  documents_file: z.object({ file: fileName, sha256 }),
  bad_records: z.object({
    count,
    examples: z.array(z.object({ where: z.string(), reason: z.string() })),
  }),
});

export type Manifest = z.output<typeof manifestSchema>;

/** The name of shard `index`. */
export function shardName(index: number): string {
  return `tokens-${String(index).padStart(5, "0")}.bin`;
}

export function newManifest(facts: Omit<Manifest, "format" | "version">): Manifest {
  return { format: formatName, version: 1, ...facts };
}

/** Throws DataError for a text that is no manifest, or not in order. */
export function parseManifest(text: string, directory: string): Manifest {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (cause) {
    throw badManifest(directory, "it is not JSON", cause);
  }
  const parsed = manifestSchema.safeParse(value);
  if (!parsed.success) {
    const [issue] = parsed.error.issues;
    throw badManifest(
      directory,
      `${issue?.path.join(".") ?? ""}: ${issue?.message ?? "wrong"}`,
      parsed.error,
    );
  }
  const manifest = parsed.data;
  const sum = manifest.shards.reduce((total, { tokens }) => total + tokens, 0);
  if (sum !== manifest.tokens)
    throw badManifest(directory, `its shards have ${sum} of ${manifest.tokens} tokens`);
  const isUneven = manifest.shards.some(
    ({ tokens }, i) => tokens !== manifest.tokens_per_shard && i < manifest.shards.length - 1,
  );
  if (isUneven) throw badManifest(directory, "a shard before the last is not full");
  return manifest;
}

function badManifest(directory: string, what: string, cause?: unknown): DataError {
  return new DataError(
    `"${directory}" holds no prepared data that can be read: ${manifestName} is damaged or of another version (${what}). ` +
      "Run speedtronic data prepare again.",
    { code: "data.bad_manifest", details: { directory }, ...(cause === undefined ? {} : { cause }) },
  );
}
