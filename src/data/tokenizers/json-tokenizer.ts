// A tokenizer as a `tokenizer.json` describes it: BPE, WordPiece or Unigram, with its added tokens. Marks that such a file
// would put around a text are left out: a document gets its mark where documents meet. Opens no files.

import { Tokenizer as Engine } from "@huggingface/tokenizers";
import { DataError } from "../../util/errors.js";
import type { TextDecoderStream, Tokenizer } from "../types.js";

const unfinished = "\uFFFD";

export class JsonTokenizer implements Tokenizer {
  readonly vocabSize: number;
  /** The text of the file, from which another thread makes the same tokenizer. */
  readonly source: string;
  readonly #engine: Engine;

  /** @throws DataError if `source` is no such description; `where` names it in the message. */
  constructor(source: string, where = "tokenizer.json") {
    this.source = source;
    try {
      this.#engine = new Engine(JSON.parse(source) as object, { clean_up_tokenization_spaces: false });
      let largest = -1;
      for (const id of this.#engine.get_vocab(true).values()) largest = Math.max(largest, id);
      this.vocabSize = largest + 1;
    } catch (cause) {
      throw new DataError(
        `${where} does not describe a tokenizer: ${cause instanceof Error ? cause.message : String(cause)}. Use the tokenizer.json of a Hugging Face model.`,
        { code: "data.tokenizer_unreadable", details: { where }, cause },
      );
    }
    if (this.vocabSize === 0)
      throw new DataError(`${where} has an empty vocabulary.`, {
        code: "data.tokenizer_unreadable",
        details: { where },
      });
  }

  encode(text: string): Int32Array {
    if (text === "") return new Int32Array(0);
    const { ids, tokens } = this.#engine.encode(text, { add_special_tokens: false });
    const missing = ids.findIndex((id: number) => !Number.isInteger(id));
    if (missing >= 0)
      throw new DataError(
        `The tokenizer has no id for ${JSON.stringify(tokens[missing])}, and no token for what it does not know. ` +
          "Use one that covers every byte, or leave the text out.",
        { code: "data.unknown_token", details: { token: tokens[missing] } },
      );
    return Int32Array.from(ids);
  }

  /** Ids without a token, as a model with spare ids may sample them, become U+FFFD. */
  decode(ids: ArrayLike<number>): string {
    let text = "";
    let known: number[] = [];
    const flush = () => {
      if (known.length > 0) text += this.#engine.decode(known, { skip_special_tokens: false });
      known = [];
    };
    for (const id of Array.from(ids)) {
      if (this.#engine.id_to_token(id) !== undefined) known.push(id);
      else {
        flush();
        text += unfinished;
      }
    }
    flush();
    return text;
  }

  /** Gives text out once later ids cannot change it: a character may take several ids. */
  decoder(): TextDecoderStream {
    // What came before is decoded again with what is new, since some decoders treat the first token otherwise.
    let before: number[] = [];
    let fresh: number[] = [];
    const rest = () => this.decode([...before, ...fresh]).slice(this.decode(before).length);
    const give = (text: string) => {
      before = fresh;
      fresh = [];
      return text;
    };
    return {
      push: (id) => {
        fresh.push(id);
        const text = rest();
        // Four ids without a whole character are none that is still to come.
        return text === "" || (text.endsWith(unfinished) && fresh.length < 4) ? "" : give(text);
      },
      end: () => (fresh.length === 0 ? "" : give(rest())),
    };
  }

  /** The id of a whole token, such as `<|endoftext|>`. */
  idOf(token: string): number | undefined {
    return this.#engine.token_to_id(token);
  }
}
