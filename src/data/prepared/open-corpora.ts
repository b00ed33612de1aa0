// Node only. From what a configuration names to rows of ids: prepared folders are opened as they are; texts are tokenised
// first, into a folder of the cache, unless that was done before.

import { createHash } from "node:crypto";
import { join } from "node:path";
import { DataError } from "../../util/errors.js";
import { type BadRecord, BadRecords, tooManyBadRecords } from "../sources/bad-records.js";
import { openDocuments, type SourceSpec } from "../sources/open-documents.js";
import type { RemoteFiles } from "../sources/source-file.js";
import type { Encoder } from "./encoder.js";
import { openPrepared, type PreparedCorpus, readManifest } from "./open-prepared.js";
import { prepareCorpus } from "./prepare-corpus.js";

/** One entry of `data.sources`. */
export interface WeighedSpec extends Omit<SourceSpec, "format"> {
  readonly format: SourceSpec["format"] | "prepared";
  /** Its share of the samples, in proportion to those of the others; null in a list without weights. */
  readonly weight: number | null;
}

export interface CorporaOptions {
  readonly specs: readonly WeighedSpec[];
  readonly encoder: Encoder;
  /** Tokenised texts are kept in a folder below it. */
  readonly cacheDirectory: string;
  readonly badRecordLimit: number;
  /** Of each text that is tokenised; null: all. */
  readonly maxTokens: number | null;
  readonly workers: number;
  readonly remote?: RemoteFiles | undefined;
  /** Is told when a text has to be tokenised, and how far that is. */
  readonly onProgress?: ((label: string, done: { documents: number; tokens: number }) => void) | undefined;
}

export interface OpenedCorpus {
  readonly label: string;
  readonly corpus: PreparedCorpus;
  readonly weight: number | null;
}

/** In the order of the specs. Throws DataError and ConfigError; nothing stays open then. */
export async function openCorpora(options: CorporaOptions): Promise<OpenedCorpus[]> {
  const opened: OpenedCorpus[] = [];
  try {
    for (const specs of await groupSpecs(options.specs)) {
      const { weight } = specs[0]!;
      for (const corpus of await openGroup(specs, options)) opened.push({ ...corpus, weight });
    }
    return opened;
  } catch (error) {
    for (const { corpus } of opened) await corpus.close();
    throw error;
  }
}

/** Texts without weights that follow each other are one corpus; everything else stands alone. */
async function groupSpecs(specs: readonly WeighedSpec[]): Promise<WeighedSpec[][]> {
  const groups: WeighedSpec[][] = [];
  let isOpen = false;
  for (const spec of specs) {
    const format = await resolveFormat(spec);
    const isText = format !== "prepared" && spec.weight === null;
    if (isOpen && isText) groups.at(-1)!.push({ ...spec, format });
    else groups.push([{ ...spec, format }]);
    isOpen = isText;
  }
  return groups;
}

/** A folder with a manifest is prepared data, unless the format says otherwise. */
async function resolveFormat({ format, paths }: WeighedSpec): Promise<WeighedSpec["format"]> {
  if (format !== "auto") return format;
  const manifests = await Promise.all(paths.map((path) => readManifest(path)));
  const prepared = manifests.filter((manifest) => manifest !== undefined).length;
  if (prepared === 0) return "auto";
  if (prepared === paths.length) return "prepared";
  throw new DataError(
    `${paths.map((path) => `"${path}"`).join(", ")} are one entry of data.sources, but only some are prepared data. ` +
      "Make an entry of each kind.",
    { code: "data.mixed_kinds", details: { paths } },
  );
}

async function openGroup(
  specs: readonly WeighedSpec[],
  options: CorporaOptions,
): Promise<Omit<OpenedCorpus, "weight">[]> {
  const { encoder, badRecordLimit, maxTokens, remote, workers } = options;
  if (specs[0]!.format === "prepared") {
    const corpora: Omit<OpenedCorpus, "weight">[] = [];
    for (const path of specs[0]!.paths) {
      const corpus = await openPrepared(path);
      corpora.push({ label: path, corpus });
      checkTokenizer(path, corpus, encoder);
    }
    return corpora;
  }
  const bad = new BadRecords(Number.POSITIVE_INFINITY);
  const source = await openDocuments({
    specs: specs as readonly SourceSpec[],
    badRecordLimit,
    remote,
    onBadRecord: (record: BadRecord) => bad.add(record),
  });
  const key = keyOf(await source.fingerprint(), encoder, maxTokens);
  const directory = join(options.cacheDirectory, "tokens", key);
  const { onProgress } = options;
  const { manifest } = await prepareCorpus({
    source,
    encoder,
    directory,
    workers,
    maxTokens,
    badRecords: () => bad,
    onProgress: onProgress && ((done) => onProgress(source.label, done)),
  });
  // It may have been tokenised under a higher limit.
  const { count, examples } = manifest.bad_records;
  if (count > badRecordLimit) throw tooManyBadRecords(count, badRecordLimit, examples);
  return [{ label: source.label, corpus: await openPrepared(directory) }];
}

function keyOf(documents: string, encoder: Encoder, maxTokens: number | null): string {
  const { fingerprint, vocabSize, endOfText } = encoder;
  const facts = JSON.stringify([1, documents, fingerprint, vocabSize, endOfText, maxTokens]);
  return createHash("sha256").update(facts).digest("hex").slice(0, 32);
}

function checkTokenizer(path: string, { manifest }: PreparedCorpus, encoder: Encoder): void {
  if (manifest.tokenizer === encoder.fingerprint && manifest.end_of_text === encoder.endOfText) return;
  const isOther = manifest.tokenizer !== encoder.fingerprint;
  throw new DataError(
    isOther
      ? `"${path}" was prepared with another tokenizer (${manifest.vocab_size} ids) than the configuration names ` +
          `(${encoder.vocabSize} ids). Name the same, or prepare the data again.`
      : `"${path}" was prepared with ${endName(manifest.end_of_text)} after each document, the configuration asks for ` +
          `${endName(encoder.endOfText)}. Ask for the same, or prepare the data again.`,
    { code: "data.other_tokenizer", details: { path, endOfText: manifest.end_of_text } },
  );
}

function endName(id: number | null): string {
  return id === null ? "no end-of-text id" : `the end-of-text id ${id}`;
}
