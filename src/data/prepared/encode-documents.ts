// Documents to ids, batch by batch and in order: read here, encoded by a pool, with an end-of-text id after each. Only a
// few batches are in memory at a time.

import { DataError } from "../../util/errors.js";
import type { DocumentSource } from "../documents.js";
import type { EncodePool } from "./encode-pool.js";
import type { EncodedTexts } from "./encode-texts.js";
import type { Encoder } from "./encoder.js";

export interface EncodedDocuments {
  readonly ids: Int32Array;
  /** Ids of each document that ends in this batch; the first may have begun in an earlier one. */
  readonly lengths: Uint32Array;
}

const batchCharacters = 2 ** 18;
const batchTexts = 2 ** 12;

interface Batch {
  readonly encoded: Promise<EncodedTexts>;
  /** Whether the document ends with this text. */
  readonly ends: readonly boolean[];
}

export async function* encodeDocuments(
  source: DocumentSource,
  { endOfText }: Encoder,
  pool: EncodePool,
): AsyncGenerator<EncodedDocuments, void, undefined> {
  const underWay: Batch[] = [];
  const open = { length: 0 };
  for await (const { texts, ends } of batches(source)) {
    const encoded = pool.encode(texts);
    // A failure is met when its turn comes; until then it is no unhandled rejection.
    encoded.catch(() => undefined);
    underWay.push({ encoded, ends });
    if (underWay.length >= pool.depth) yield await finish(underWay.shift()!, endOfText, open);
  }
  for (const batch of underWay) yield await finish(batch, endOfText, open);
}

/** The first `most` ids; a document that does not fit is cut. Reads no further than it has to. */
export async function* limitTokens(
  encoded: AsyncGenerator<EncodedDocuments, void, undefined>,
  most: number,
): AsyncGenerator<EncodedDocuments, void, undefined> {
  let tokens = 0;
  let ended = 0;
  for await (const { ids, lengths } of encoded) {
    const kept = ids.subarray(0, most - tokens);
    tokens += kept.length;
    const whole: number[] = [];
    for (const length of lengths) {
      if (ended + length > tokens) break;
      whole.push(length);
      ended += length;
    }
    if (tokens === most && ended < most) whole.push(most - ended);
    yield { ids: kept, lengths: Uint32Array.from(whole) };
    if (tokens === most) return;
  }
}

async function* batches(
  source: DocumentSource,
): AsyncGenerator<{ readonly texts: string[]; readonly ends: boolean[] }, void, undefined> {
  let texts: string[] = [];
  let ends: boolean[] = [];
  let characters = 0;
  for await (const document of source.documents()) {
    if (!("text" in document))
      throw new DataError(`${source.label} gives records where texts are needed.`, { code: "data.no_text" });
    texts.push(document.text);
    ends.push(document.isContinued !== true);
    characters += document.text.length;
    if (characters < batchCharacters && texts.length < batchTexts) continue;
    yield { texts, ends };
    texts = [];
    ends = [];
    characters = 0;
  }
  // A document whose last piece was of no use ends all the same.
  if (ends.length > 0) ends[ends.length - 1] = true;
  if (texts.length > 0) yield { texts, ends };
}

/** `open.length` carries the ids of a document over that goes on in the next batch. */
async function finish(
  { encoded, ends }: Batch,
  endOfText: number | null,
  open: { length: number },
): Promise<EncodedDocuments> {
  const { ids: found, lengths: parts } = await encoded;
  const documents = ends.filter(Boolean).length;
  const ids = new Int32Array(found.length + (endOfText === null ? 0 : documents));
  const lengths = new Uint32Array(documents);
  let [from, to, count] = [0, 0, 0];
  for (let i = 0; i < parts.length; i++) {
    const length = parts[i]!;
    ids.set(found.subarray(from, from + length), to);
    from += length;
    to += length;
    open.length += length;
    if (ends[i] !== true) continue;
    // A document without an id is none.
    if (open.length > 0) {
      if (endOfText !== null) {
        ids[to++] = endOfText;
        open.length++;
      }
      lengths[count++] = open.length;
    }
    open.length = 0;
  }
  return { ids: ids.subarray(0, to), lengths: lengths.subarray(0, count) };
}
