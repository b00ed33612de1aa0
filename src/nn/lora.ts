// Adapters over a whole model: given to the layers that patterns name, everything else frozen; and merged back into
// the weights. Which weights lie under them is somebody else's business.

import type { Parameter } from "../tensor/index.js";
import { ModelError } from "../util/errors.js";
import { initialize } from "./init/initialize.js";
import { AdaptableLayer, type AdapterOptions, LowRankAdapter } from "./layers/adapter.js";
import type { Module } from "./module.js";
import { suggestion } from "./near-miss.js";

export interface LoraOptions extends AdapterOptions {
  /** Names of layers or of what holds them; `*` stands for any text. */
  readonly targets: readonly string[];
}

/**
 * Gives an adapter to every layer that `targets` name, and freezes all other parameters. Returns the layers' names.
 * @throws ModelError for a target that names no layer which can be adapted, and where there are adapters already
 */
export function addLora(model: Module, { targets, ...options }: LoraOptions): string[] {
  const layers = adaptableLayers(model);
  if (layers.some(([, layer]) => layer.lora))
    throw new ModelError("the model has adapters already: merge them first", { code: "lora.present" });
  const patterns = targets.map((text) => ({ text, fits: matcher(text) }));
  const names = layers.map(([name]) => name);
  for (const { text, fits } of patterns)
    if (!names.some(fits))
      throw new ModelError(
        `lora.targets: no layer of ${model.constructor.name} that can be adapted is named ${JSON.stringify(text)}` +
          `${suggestion(text, names)}; there are ${shortList(names)}`,
        { code: "lora.no_such_layer", details: { target: text, layers: names } },
      );
  const chosen = layers.filter(([name]) => patterns.some(({ fits }) => fits(name)));
  if (chosen.length === 0)
    throw new ModelError("lora.targets is empty: name at least one layer, such as *attn*", {
      code: "lora.no_targets",
    });
  for (const parameter of model.namedParameters().values()) parameter.trainable = false;
  for (const [, layer] of chosen) layer.lora = new LowRankAdapter(layer.adapterShape, options);
  return chosen.map(([name]) => name);
}

/** Names of the parameters of all adapters, in the model's order. */
export function loraParameterNames(model: Module): string[] {
  const own = new Set<Parameter>();
  for (const [, { lora }] of adaptableLayers(model)) if (lora) own.add(lora.A).add(lora.B);
  return [...model.namedParameters()].filter(([, parameter]) => own.has(parameter)).map(([name]) => name);
}

/** Draws the adapters' starting values, and leaves everything else as it is; see {@link initialize}. */
export function initializeLora(model: Module, seed: number): void {
  initialize(model, seed, new Set(loraParameterNames(model)));
}

/** Adds every adapter to the weights under it and takes it away. Returns how many there were. */
export function mergeLora(model: Module): number {
  const adapted = adaptableLayers(model).filter(([, layer]) => layer.lora);
  for (const [, layer] of adapted) layer.mergeAdapter();
  return adapted.length;
}

function adaptableLayers(model: Module): [string, AdaptableLayer][] {
  return [...model.namedModules()].filter(
    (entry): entry is [string, AdaptableLayer] => entry[1] instanceof AdaptableLayer,
  );
}

/** A name, everything below it, or either with `*` for any text. */
function matcher(pattern: string): (name: string) => boolean {
  const source = pattern
    .split("*")
    .map((text) => text.replace(/[.\\+?^${}()|[\]]/g, "\\$&"))
    .join(".*");
  const expression = new RegExp(`^(?:${source})(?:\\..*)?$`);
  return (name) => expression.test(name);
}

function shortList(names: readonly string[]): string {
  if (names.length === 0) return "none";
  return names.slice(0, 8).join(", ") + (names.length > 8 ? ` and ${names.length - 8} more` : "");
}
