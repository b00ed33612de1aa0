// Which rule updates what, and why; exceptions by pattern.

import { ConfigError } from "speedtronic";
import { formatRoutes, optimizerRoutes } from "speedtronic/train";
import { describe, expect, it } from "vitest";
import { resolveConfig } from "../../src/config/index.js";
import { buildConfiguredModel } from "../../src/train/configured-model.js";

const layers = 2;

function routes(muon_routes: Record<string, "muon" | "adamw"> = {}, tie = true) {
  const config = resolveConfig({
    model: { n_layer: layers, n_head: 2, d_model: 16, vocab_size: 32, max_seq_len: 8, tie_weights: tie },
    optimizer: { name: "muon", muon_routes },
  });
  return optimizerRoutes(config, buildConfiguredModel(config));
}
const namesOf = (rows: ReturnType<typeof routes>, rule: string) =>
  rows.filter((row) => row.rule === rule).map((row) => row.name);

describe("routing", () => {
  it("gives Muon the 7 matrices of every layer, AdamW the table, the head and the norms", () => {
    expect(namesOf(routes(), "muon")).toHaveLength(7 * layers);
    expect(namesOf(routes(), "adamw")).toHaveLength(1 + 2 * layers + 1);
    const untied = routes({}, false);
    expect(namesOf(untied, "muon")).toHaveLength(7 * layers);
    expect(namesOf(untied, "adamw")).toHaveLength(2 + 2 * layers + 1);
    expect(formatRoutes(untied)).toMatch(
      /^lm_head\.weight → adamw: "lm_head" names an input or output layer$/m,
    );
    expect(formatRoutes(untied)).toMatch(/wte\.weight → adamw: Embedding is no linear layer$/m);
  });

  it("follows exceptions by subtree and by *, the last that fits", () => {
    const [first] = namesOf(routes(), "muon");
    const block = first!.split(".").slice(0, 3).join(".");
    expect(namesOf(routes({ [block]: "adamw" }), "muon")).toHaveLength(7);
    expect(namesOf(routes({ "*": "adamw", [first!]: "muon" }), "muon")).toEqual([first]);
    expect(routes({ [block]: "adamw" }).find((row) => row.name === first)).toMatchObject({
      reason: `muon_routes ${JSON.stringify(block)}`,
    });
  });

  it("refuses a pattern that fits nothing, and Muon for what is no matrix", () => {
    expect(() => routes({ "layer.9": "adamw" })).toThrow(ConfigError);
    expect(() => routes({ "layer.9": "adamw" })).toThrow(/no parameter of the model fits "layer\.9"/);
    expect(() => routes({ "*.ln1": "muon" })).toThrow(/has 1 dimensions and Muon is for matrices/);
  });
});
