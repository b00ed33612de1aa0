// What `speedtronic generate` does once its options are read: load the model and write the text as it comes.

import { ByteTokenizer } from "../data/byte-tokenizer.js";
import type { Tokenizer } from "../data/types.js";
import type { LanguageModel } from "../nn/contract.js";
import { Generator } from "../nn/generate/generator.js";
import { generateText } from "../nn/generate/text.js";
import { escapeControls } from "../observe/number-text.js";
import { createOnnxBackend } from "../tensor/backends/onnx/backend.node.js";
import { isLanguageModel } from "../train/configured-model.js";
import { defaultThreads } from "../train/environment.node.js";
import { loadTrainedModel, type TrainedModel } from "../train/load-model.node.js";
import { namedTokenizer } from "../train/plugins/given.js";
import { ConfigError, DataError, ModelError } from "../util/errors.js";
import { onStopSignals } from "../util/signals.node.js";
import type { CliContext } from "./context.js";
import { exitCodeOfStop } from "./exit-codes.js";

export interface GenerateRequest {
  /** Folder of a run, of its checkpoints, or of one checkpoint. */
  readonly checkpoint: string;
  readonly prompt: string;
  readonly maxNewTokens: number;
  /** 0 means greedy. */
  readonly temperature: number;
  /** Null means all tokens. */
  readonly topK: number | null;
  readonly seed: number;
  /** Modules that bring the model. */
  readonly plugins?: readonly string[];
}

const bytes = 256;

export async function runGeneration(request: GenerateRequest, context: CliContext): Promise<number> {
  if (request.prompt === "")
    throw new ConfigError("--prompt is empty: give at least one character to continue", {
      code: "generate.empty_prompt",
    });
  const stop = new AbortController();
  const signals = onStopSignals((signal) => stop.abort(signal));
  context.onOutputClosed = () => stop.abort("output closed");
  try {
    const trained = await loadTrainedModel(request.checkpoint, { plugins: request.plugins ?? [] });
    for (const { path, reason } of trained.skipped)
      context.err(`speedtronic: warning: passed over ${path}: ${reason}\n`);
    const model = requireLanguageModel(trained);
    const tokenizer = await namedTokenizer(trained.config);
    if (tokenizer === undefined) checkVocabulary(request.prompt, model, context);
    else checkIds(tokenizer.encode(request.prompt), model);
    await writeText(request, trained, model, tokenizer ?? new ByteTokenizer(), stop.signal, context);
    return exitCodeOfStop(stop.signal.reason);
  } finally {
    signals.close();
  }
}

/** Prompt and continuation, closed by a line end even when it was stopped. */
async function writeText(
  request: GenerateRequest,
  { config }: TrainedModel,
  model: LanguageModel,
  tokenizer: Tokenizer,
  signal: AbortSignal,
  context: CliContext,
): Promise<void> {
  const backend = await createOnnxBackend({ threads: config.run.threads ?? defaultThreads() });
  const generator = new Generator({ model, backend });
  // An undertrained model writes any byte: a terminal must not take them as commands.
  const write = (text: string) => context.out(context.isTerminal ? escapeControls(text, "\n\t") : text);
  try {
    write(request.prompt);
    await generateText({ ...request, generator, tokenizer, signal, onText: write });
  } catch (error) {
    if (!signal.aborted) throw error;
  } finally {
    context.out("\n");
    await generator.close();
  }
}

function requireLanguageModel({ model, config, checkpoint }: TrainedModel): LanguageModel {
  if (isLanguageModel(model)) return model;
  throw new ModelError(
    `${checkpoint.path}: the model "${config.model.name}" is no language model, so it cannot continue a text`,
    { code: "generate.not_a_language_model", details: { path: checkpoint.path } },
  );
}

/** Text is bytes where no tokenizer is named; a model may know fewer ids than there are bytes, or more. */
function checkVocabulary(prompt: string, { vocabSize }: LanguageModel, context: CliContext): void {
  let offset = 0;
  for (const character of prompt) {
    const encoded = new TextEncoder().encode(character);
    const index = encoded.findIndex((byte) => byte >= vocabSize);
    if (index >= 0) throw unknownByte(character, encoded[index]!, offset + index, vocabSize);
    offset += encoded.length;
  }
  if (vocabSize > bytes)
    context.err(
      `speedtronic: warning: the model knows ${vocabSize} ids, text has ${bytes} bytes: ids from ${bytes} on are written as \uFFFD\n`,
    );
}

/** The tokenizer's file may have been exchanged since the model was trained. */
function checkIds(ids: Int32Array, { vocabSize }: LanguageModel): void {
  const id = ids.find((one) => one >= vocabSize);
  if (id === undefined) return;
  throw new DataError(
    `data.tokenizer gives the prompt the id ${id}, but the vocabulary of this model ends at id ${vocabSize - 1}: use the ` +
      "tokenizer that the model was trained with",
    { code: "data.vocabulary_too_small", details: { id, vocabSize } },
  );
}

function unknownByte(character: string, byte: number, offset: number, vocabSize: number): DataError {
  const shown = escapeControls(character);
  const hex = byte.toString(16).padStart(2, "0");
  return new DataError(
    `the prompt has byte ${byte} (0x${hex}, in "${shown}") at offset ${offset}, but the vocabulary of this model ends ` +
      `at id ${vocabSize - 1}: leave "${shown}" out, or train a model with model.vocab_size ${bytes}`,
    { code: "data.vocabulary_too_small", details: { id: byte, offset, vocabSize } },
  );
}
