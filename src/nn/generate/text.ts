// Text in, text out: a prompt is encoded, and new ids become text as soon as their characters are complete.

import type { GenerateOptions, Generator } from "./generator.js";

/** What generation needs of a tokenizer. */
export interface TextCodec {
  encode(text: string): ArrayLike<number>;
  /** Turns ids into text while they arrive, and holds incomplete characters back. */
  decoder(): { push(id: number): string; end(): string };
}

export interface GenerateTextOptions extends Omit<GenerateOptions, "ids" | "onToken"> {
  generator: Generator;
  tokenizer: TextCodec;
  prompt: string;
  /** Called with each piece of new text; never with an empty one. */
  onText?: (text: string) => void | Promise<void>;
}

/** The text that follows `prompt`, without the prompt. Errors as for {@link Generator.generate}. */
export async function generateText(options: GenerateTextOptions): Promise<string> {
  const { generator, tokenizer, prompt, onText, ...rest } = options;
  const decoder = tokenizer.decoder();
  let text = "";
  const emit = async (piece: string) => {
    text += piece;
    if (piece !== "") await onText?.(piece);
  };
  await generator.generate({
    ...rest,
    ids: tokenizer.encode(prompt),
    onToken: async (id) => emit(decoder.push(id)),
  });
  await emit(decoder.end());
  return text;
}
