// Models by name, so that a config file can choose one. One table per process; the built-in models are in it
// from the start.

import { ConfigError, ModelError } from "../../util/errors.js";
import type { TrainableModel } from "../contract.js";
import { nearMiss } from "../near-miss.js";
import { Gpt2 } from "./gpt2.js";
import { Llama } from "./llama.js";
import { defaultModelOptions, type ModelOptions } from "./options.js";
import { ReferenceTransformer } from "./reference-transformer.js";

export type ModelFactory = (options: ModelOptions) => TrainableModel;

const buildReference: ModelFactory = (options) => new ReferenceTransformer(options);

const factories = new Map<string, ModelFactory>([
  ["reference_transformer", buildReference],
  ["gpt", buildReference],
  ["llama", (options) => new Llama(options)],
  ["gpt2", (options) => new Gpt2(options)],
]);

/**
 * Makes `factory` available as `model.name: <name>`.
 * @throws ConfigError for an empty name, and for one that is taken unless `replace` is set.
 */
export function registerModel(
  name: string,
  factory: ModelFactory,
  options: { replace?: boolean } = {},
): void {
  if (name.trim() === "")
    throw new ConfigError("a model needs a name that is not empty", { code: "model.empty_name" });
  if (typeof factory !== "function")
    throw new ConfigError(`the factory of model "${name}" must be a function, got ${typeof factory}`, {
      code: "model.factory",
      details: { name },
    });
  if (factories.has(name) && options.replace !== true)
    throw new ConfigError(
      `a model named "${name}" is registered already: choose another name, or pass { replace: true }`,
      { code: "model.duplicate_name", details: { name } },
    );
  factories.set(name, factory);
}

/** All registered names, sorted. */
export function modelNames(): string[] {
  return [...factories.keys()].sort();
}

/**
 * Builds the model called `name`; options that are left out take their defaults. The weights are still zeros:
 * call `initialize`, or load a state dict.
 * @throws ConfigError for an unknown name, ModelError when its factory returns no model
 */
export function buildModel({ name, ...options }: { name: string } & Partial<ModelOptions>): TrainableModel {
  const factory = factories.get(name);
  if (!factory) {
    const near = nearMiss(name, factories.keys());
    throw new ConfigError(
      `unknown model "${name}"${near === undefined ? "" : ` (did you mean "${near}"?)`}; ` +
        `registered: ${modelNames().join(", ")}. Call registerModel before the model is built to add one`,
      { code: "model.unknown_name", details: { name, known: modelNames(), suggestion: near } },
    );
  }
  const model: unknown = factory({ ...defaultModelOptions, ...options });
  if (!isModel(model))
    throw new ModelError(
      `the factory of model "${name}" must return a Module with a forward method, got ${described(model)}`,
      { code: "model.factory_result", details: { name } },
    );
  return model;
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
