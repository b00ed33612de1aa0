// What can be wrong with a Hugging Face folder: it cannot be read as one, or it holds a model with features that
// nothing here computes. The second names all of them, since a model with one left out would give other numbers.

import { ModelError } from "../../util/errors.js";

/** A folder or file that is not what it should be. `details.path` says which. */
export class HuggingFaceError extends ModelError {}

/** A sound folder of a model that is not supported. */
export class UnsupportedModelError extends HuggingFaceError {
  /** Every feature that stands in the way, with the key of `config.json` that asks for it. */
  readonly features: readonly string[];

  constructor(path: string, features: readonly string[]) {
    super(
      `${path}: this model cannot be imported, since it has features that are not supported here:\n` +
        features.map((feature) => `  ${feature}`).join("\n"),
      { code: "huggingface.unsupported", details: { path, features } },
    );
    this.features = features;
  }
}
