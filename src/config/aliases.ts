// Other spellings of keys and sections, in one table each: reading undoes them, and the JSON Schema allows them.

/** Keys that may stand at the root though they belong to a section. */
export const ROOT_ALIASES: Readonly<Record<string, string>> = {
  name: "run.name",
  seed: "run.seed",
  device: "run.device",
  output_dir: "run.output_dir",
  max_steps: "run.max_steps",
  log_every: "run.log_every",
  muon_plus: "optimizer.muon_plus",
  cautious: "optimizer.cautious",
};

/** Other names of the section `distributed`. */
export const SECTION_ALIASES = ["hub", "diloco"] as const;

/** Sections that may be written as one word, and the key that the word goes to. */
export const WORD_SECTIONS: ReadonlyMap<string, string> = new Map([
  ["optimizer", "name"],
  ["precision", "mode"],
]);
