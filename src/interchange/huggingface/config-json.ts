// `config.json` of a Hugging Face folder as a checked table of values. Knows types and which key was wrong; what
// the keys mean is for those who ask.

import { readFile } from "node:fs/promises";
import { join } from "node:path";

import { HuggingFaceError } from "./errors.js";

export const CONFIG_FILE = "config.json";

export class ConfigJson {
  constructor(
    /** For messages. */
    readonly path: string,
    readonly values: Readonly<Record<string, unknown>>,
  ) {}

  /** Whether the key is there and not null. */
  has(key: string): boolean {
    return Object.hasOwn(this.values, key) && this.values[key] !== null;
  }

  get(key: string): unknown {
    return Object.hasOwn(this.values, key) ? this.values[key] : undefined;
  }

  size(key: string, fallback: number): number {
    return this.#read(
      key,
      fallback,
      "a positive integer",
      (v) => Number.isSafeInteger(v) && (v as number) > 0,
    );
  }

  sizeOrNull(key: string): number | null {
    return this.has(key) ? this.size(key, 1) : null;
  }

  positive(key: string, fallback: number): number {
    return this.#read(key, fallback, "a number greater than 0", (v) => typeof v === "number" && v > 0);
  }

  /** A share, such as a dropout rate. */
  rate(key: string, fallback: number): number {
    const isRate = (v: unknown) => typeof v === "number" && v >= 0 && v < 1;
    return this.#read(key, fallback, "a number from 0 up to but not including 1", isRate);
  }

  flag(key: string, fallback: boolean): boolean {
    return this.#read(key, fallback, "true or false", (v) => typeof v === "boolean");
  }

  text(key: string, fallback: string): string {
    return this.#read(key, fallback, "text", (v) => typeof v === "string");
  }

  texts(key: string): readonly string[] {
    const isTexts = (v: unknown) => Array.isArray(v) && v.every((item) => typeof item === "string");
    return this.#read<readonly string[]>(key, [], "a list of texts", isTexts);
  }

  /** A nested mapping, or null. Its messages name the key with its parent's. */
  mapping(key: string): ConfigJson | null {
    if (!this.has(key)) return null;
    const value = this.#read<Record<string, unknown>>(key, {}, "a mapping", isMapping);
    return new ConfigJson(`${this.path}: ${key}`, value);
  }

  #read<T>(key: string, fallback: T, expected: string, accepts: (value: unknown) => boolean): T {
    const value = this.get(key);
    if (value === undefined || value === null) return fallback;
    if (accepts(value)) return value as T;
    throw new HuggingFaceError(`${this.path}: "${key}" must be ${expected}, got ${JSON.stringify(value)}`, {
      code: "huggingface.config",
      details: { path: this.path, key, value },
    });
  }
}

/** @throws HuggingFaceError `huggingface.not_a_folder` without the file, `huggingface.config` for one that is no JSON */
export async function readConfigJson(folder: string): Promise<ConfigJson> {
  const path = join(folder, CONFIG_FILE);
  let text: string;
  try {
    text = await readFile(path, "utf8");
  } catch (cause) {
    throw new HuggingFaceError(
      `${folder}: there is no ${CONFIG_FILE} to read, so this is not a Hugging Face model folder ` +
        `(${cause instanceof Error ? cause.message : String(cause)})`,
      { code: "huggingface.not_a_folder", details: { path: folder }, cause },
    );
  }
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (cause) {
    throw new HuggingFaceError(`${path}: not valid JSON (${(cause as Error).message})`, {
      code: "huggingface.config",
      details: { path },
      cause,
    });
  }
  if (isMapping(value)) return new ConfigJson(path, value as Record<string, unknown>);
  throw new HuggingFaceError(`${path}: must be a JSON object`, {
    code: "huggingface.config",
    details: { path },
  });
}

function isMapping(value: unknown): boolean {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
