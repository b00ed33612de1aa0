// Files that make `transformers` read text as this library's byte tokenizer does: one id per UTF-8 byte, equal to
// the byte. A byte-level BPE without merges: its alphabet is the usual one that gives each byte a visible character.

/** Files that belong to a tokenizer, where a folder has them. */
export const TOKENIZER_FILES: readonly string[] = [
  "tokenizer.json",
  "tokenizer_config.json",
  "special_tokens_map.json",
  "added_tokens.json",
  "tokenizer.model",
  "vocab.json",
  "merges.txt",
  "chat_template.jinja",
];

/** Contents by file name. */
export function byteTokenizerFiles(contextLength: number): Map<string, string> {
  const tokenizer = {
    version: "1.0",
    truncation: null,
    padding: null,
    added_tokens: [],
    normalizer: null,
    pre_tokenizer: { type: "ByteLevel", add_prefix_space: false, trim_offsets: true, use_regex: false },
    post_processor: null,
    decoder: { type: "ByteLevel", add_prefix_space: false, trim_offsets: true, use_regex: false },
    model: {
      type: "BPE",
      dropout: null,
      unk_token: null,
      continuing_subword_prefix: null,
      end_of_word_suffix: null,
      fuse_unk: false,
      byte_fallback: false,
      ignore_merges: false,
      vocab: Object.fromEntries(byteAlphabet().map((character, byte) => [character, byte])),
      merges: [],
    },
  };
  const settings = {
    tokenizer_class: "PreTrainedTokenizerFast",
    model_max_length: contextLength,
    clean_up_tokenization_spaces: false,
  };
  return new Map([
    ["tokenizer.json", jsonText(tokenizer)],
    ["tokenizer_config.json", jsonText(settings)],
  ]);
}

/** The character of each byte: printable ones stand for themselves, the others take the letters from U+0100 on. */
function byteAlphabet(): string[] {
  let next = 0x100;
  return Array.from({ length: 256 }, (_, byte) => {
    const isPrintable =
      (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || (byte >= 0xae && byte <= 0xff);
    return String.fromCodePoint(isPrintable ? byte : next++);
  });
}

export function jsonText(value: unknown): string {
  return `${JSON.stringify(value, null, 2)}\n`;
}
