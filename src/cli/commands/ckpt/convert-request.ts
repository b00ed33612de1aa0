// What `speedtronic ckpt convert` was asked for.

import { stat } from "node:fs/promises";
import { join } from "node:path";

export interface ConvertRequest {
  readonly input: string;
  readonly output: string;
  readonly force: boolean;
  /** Most tensor data of one shard. */
  readonly maxShardBytes: number;
  /** Configuration of the model, for inputs that bring none. */
  readonly config?: string;
  /** Positions to build an imported Hugging Face model for. Default: all that it was made for. */
  readonly contextLength?: number;
}

/** The folder of a Hugging Face model: `config.json` beside weights, and no manifest of ours. */
export async function isHuggingFaceFolder(path: string): Promise<boolean> {
  const has = (name: string) =>
    stat(join(path, name)).then(
      (info) => info.isFile(),
      () => false,
    );
  return (await has("config.json")) && !(await has("manifest.json"));
}
