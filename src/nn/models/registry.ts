// Models by name, so that a config file can choose one. One table per process; the built-in models are in it
// from the start.

import { ConfigError, ModelError } from "../../util/errors.js";
import { foreignError } from "../../util/user-code.js";
import type { TrainableModel } from "../contract.js";
import { nearMiss } from "../near-miss.js";
import { type ExtraSchema, parseExtra } from "./extra.js";
import { Gpt2, readGpt2Extra } from "./gpt2.js";
import { Llama } from "./llama.js";
import { readLlamaExtra } from "./llama-extra.js";
import { defaultModelOptions, type ModelOptions } from "./options.js";
import { ReferenceTransformer } from "./reference-transformer.js";

export type ModelFactory = (options: ModelOptions) => TrainableModel;

interface Registered {
  readonly factory: ModelFactory;
  /** Of its own settings; absent where the factory checks them itself. */
  readonly extra?: ExtraSchema | undefined;
}

/** A schema of models that fill in the defaults themselves. */
const checkedBy = (check: (extra: Readonly<Record<string, unknown>>) => unknown): ExtraSchema => ({
  parse(extra: Readonly<Record<string, unknown>>) {
    check(extra);
    return extra;
  },
});

const reference: Registered = { factory: (options) => new ReferenceTransformer(options), extra: {} };

const models = new Map<string, Registered>([
  ["reference_transformer", reference],
  ["gpt", reference],
  ["llama", { factory: (options) => new Llama(options), extra: checkedBy(readLlamaExtra) }],
  ["gpt2", { factory: (options) => new Gpt2(options), extra: checkedBy(readGpt2Extra) }],
]);

export interface RegisterModelOptions {
  /** Take the place of one with the same name. */
  readonly replace?: boolean;
  /**
   * What `model.extra` may hold for this model: rules by key, or anything with a `parse` that returns the checked
   * settings or throws, such as a zod schema. The factory gets what it returns.
   */
  readonly extra?: ExtraSchema;
}

/**
 * Makes `factory` available as `model.name: <name>`.
 * @throws ConfigError for an empty name, and for one that is taken unless `replace` is set.
 */
export function registerModel(name: string, factory: ModelFactory, options: RegisterModelOptions = {}): void {
  if (name.trim() === "")
    throw new ConfigError("a model needs a name that is not empty", { code: "model.empty_name" });
  if (typeof factory !== "function")
    throw new ConfigError(`the factory of model "${name}" must be a function, got ${typeof factory}`, {
      code: "model.factory",
      details: { name },
    });
  if (models.has(name) && options.replace !== true)
    throw new ConfigError(
      `a model named "${name}" is registered already: choose another name, or pass { replace: true }`,
      { code: "model.duplicate_name", details: { name } },
    );
  models.set(name, { factory, extra: options.extra });
}

/** All registered names, sorted. */
export function modelNames(): string[] {
  return [...models.keys()].sort();
}

/**
 * Builds the model called `name`; options that are left out take their defaults. The weights are still zeros:
 * call `initialize`, or load a state dict.
 * @throws ConfigError for an unknown name, ModelError when its factory throws or returns no model
 */
export function buildModel({ name, ...options }: { name: string } & Partial<ModelOptions>): TrainableModel {
  const { factory } = registeredModel(name);
  const extra = checkModelExtra(name, options.extra ?? {});
  let model: unknown;
  try {
    model = factory({ ...defaultModelOptions, ...options, extra });
  } catch (error) {
    throw foreignError(ModelError, "model.factory_failed", `the factory of model "${name}"`, error);
  }
  if (!isModel(model))
    throw new ModelError(
      `the factory of model "${name}" must return a Module with a forward method, got ${described(model)}`,
      { code: "model.factory_result", details: { name } },
    );
  return model;
}

/**
 * The settings in `extra` as the model called `name` takes them, with its defaults where it has a schema.
 * @throws ConfigError for an unknown model, ModelError for settings that its schema refuses
 */
export function checkModelExtra(
  name: string,
  extra: Readonly<Record<string, unknown>>,
): Readonly<Record<string, unknown>> {
  const schema = registeredModel(name).extra;
  return schema === undefined ? extra : parseExtra(name, extra, schema);
}

function registeredModel(name: string): Registered {
  const found = models.get(name);
  if (found) return found;
  const near = nearMiss(name, models.keys());
  throw new ConfigError(
    `unknown model "${name}"${near === undefined ? "" : ` (did you mean "${near}"?)`}; ` +
      `registered: ${modelNames().join(", ")}. Call registerModel before the model is built to add one`,
    { code: "model.unknown_name", details: { name, known: modelNames(), suggestion: near } },
  );
}

function isModel(value: unknown): value is TrainableModel {
  const { forward, namedParameters } = (value ?? {}) as Partial<TrainableModel>;
  return typeof forward === "function" && typeof namedParameters === "function";
}

function described(value: unknown): string {
  if (value instanceof Promise) return "a Promise: it must not be async";
  return typeof value === "object" && value !== null
    ? `a ${value.constructor?.name ?? "record"}`
    : String(value);
}
