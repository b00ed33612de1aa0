// State of modules outside tensors: taking it back, all of it or nothing. Knows nothing of files.

import { ModelError } from "../util/errors.js";

/** Plain JSON data. */
export type ExtraState =
  | null
  | boolean
  | number
  | string
  | readonly ExtraState[]
  | { readonly [key: string]: ExtraState | undefined };

/** What of a module matters here. */
interface Stateful {
  getExtraState(): ExtraState | undefined;
  setExtraState(state: ExtraState): void;
}

/** Names of modules that have state and are given none, or are given some and have no place for it. */
export function extraStateMismatch(
  modules: ReadonlyMap<string, Stateful>,
  saved: Readonly<Record<string, ExtraState>>,
): { missing: string[]; unexpected: string[] } {
  const current = [...modules]
    .filter(([, module]) => module.getExtraState() !== undefined)
    .map(([name]) => name);
  return {
    missing: current.filter((name) => !Object.hasOwn(saved, name)),
    unexpected: Object.keys(saved).filter((name) => !current.includes(name)),
  };
}

export function loadExtra(
  modules: ReadonlyMap<string, Stateful>,
  saved: Readonly<Record<string, ExtraState>>,
): void {
  const { missing, unexpected } = extraStateMismatch(modules, saved);
  if (missing.length + unexpected.length > 0) {
    const shown = (names: readonly string[]) => names.map((name) => `"${name}"`).join(", ");
    throw new ModelError(
      "the saved state of modules does not fit the model; nothing was loaded" +
        (missing.length > 0 ? `; no state for ${shown(missing)}` : "") +
        (unexpected.length > 0 ? `; no place for the state of ${shown(unexpected)}` : ""),
      { code: "model.extra_state", details: { missing, unexpected } },
    );
  }
  const changed: [Stateful, ExtraState][] = [];
  try {
    for (const [name, state] of Object.entries(saved)) {
      const module = modules.get(name)!;
      // The module may hand out the very objects that it works with.
      changed.push([module, structuredClone(module.getExtraState()!)]);
      module.setExtraState(state);
    }
  } catch (error) {
    for (const [module, state] of changed.reverse()) module.setExtraState(state);
    throw error;
  }
}
