// Checks of what a program hands to the composition root beside the configuration: programs without types can
// hand over anything, and an option that is misspelt must not be ignored.

import { nearest } from "../config/suggest.js";
import type { TrainableModel } from "../nn/contract.js";
import { ConfigError, ModelError } from "../util/errors.js";
import type { RuntimeOptions } from "./runtime.node.js";

const known: Readonly<Record<keyof RuntimeOptions, true>> = {
  resume: true,
  acceptDifferences: true,
  initialWeights: true,
  model: true,
  dataset: true,
  validation: true,
  tokenizer: true,
  loader: true,
  schedule: true,
  coordinator: true,
  transport: true,
  hooks: true,
  stream: true,
  profile: true,
  signal: true,
  backend: true,
};

const backends = ["onnx", "reference"];

/** @throws ConfigError for unknown options and backends, ModelError for a `model` that is none */
export function checkRuntimeOptions(options: RuntimeOptions): void {
  const names = Object.keys(known);
  for (const name of Object.keys(options)) {
    if (Object.hasOwn(known, name)) continue;
    throw new ConfigError(
      `unknown option "${name}"${suggestion(name, names)}; options: ${names.join(", ")}`,
      {
        code: "train.unknown_option",
        details: { name, known: names },
      },
    );
  }
  const { backend, model, schedule } = options;
  if (backend !== undefined && !backends.includes(backend))
    throw new ConfigError(
      `unknown backend ${JSON.stringify(backend)}${suggestion(String(backend), backends)}; backends: ${backends.join(", ")}`,
      { code: "train.unknown_backend", details: { backend, known: backends } },
    );
  if (schedule !== undefined && typeof schedule !== "function")
    throw new ConfigError(
      `the option schedule must be a function from updates done to a factor of optimizer.lr, got ${typeof schedule}`,
      { code: "train.not_a_schedule" },
    );
  if (model !== undefined && !isTrainable(model))
    throw new ModelError("the option model must be a Module with a forward method", {
      code: "model.not_a_model",
    });
}

function isTrainable(model: unknown): model is TrainableModel {
  const { forward, namedParameters } = (model ?? {}) as Partial<TrainableModel>;
  return typeof forward === "function" && typeof namedParameters === "function";
}

function suggestion(name: string, candidates: readonly string[]): string {
  const near = nearest(name, candidates);
  return near === undefined ? "" : ` (did you mean "${near}"?)`;
}
