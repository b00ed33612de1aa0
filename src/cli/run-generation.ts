// What `speedtronic generate` does once its options are read: load the model and write the text as it comes.

import { InternalError } from "../util/errors.js";
import type { CliContext } from "./context.js";

export interface GenerateRequest {
  /** A checkpoint folder, or a folder that holds checkpoints. */
  readonly checkpoint: string;
  readonly prompt: string;
  readonly maxNewTokens: number;
  /** 0 means greedy. */
  readonly temperature: number;
  /** Null means all tokens. */
  readonly topK: number | null;
  readonly seed: number;
}

export async function runGeneration(_request: GenerateRequest, _context: CliContext): Promise<number> {
  throw new InternalError("generation is not connected to the command line", {
    code: "internal.not_connected",
  });
}
