// Lets code that wants a Backend (text generation) run on an engine's present parameters, where they are: use it
// with a Generator that does not feed weights.

import { WEIGHT_PREFIX } from "../nn/generate/steps.js";
import type { Backend } from "../tensor/backends/backend.js";
import { parameterFeed, type TrainEngine } from "./engine/contract.js";

export function engineBackend(engine: TrainEngine): Backend {
  const isWeight = (name: string) => name.startsWith(WEIGHT_PREFIX);
  return {
    name: "engine",
    async compile(graph) {
      const inputs = graph.inputs.map(({ name, value }) => ({
        name: isWeight(name) ? parameterFeed(name.slice(WEIGHT_PREFIX.length)) : name,
        value,
      }));
      const program = await engine.addProgram({ ...graph, inputs });
      return {
        run: (feeds) => engine.evaluate(program, feeds),
        close: () => engine.removeProgram(program),
      };
    },
  };
}
