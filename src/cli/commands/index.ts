// The table of commands. A new command is a file beside this one and a line here.

import type { CliCommandEntry } from "../command.js";

export const commands: readonly CliCommandEntry[] = [
  {
    name: "train",
    summary: "train a model as a configuration file says",
    load: async () => (await import("./train.js")).train,
  },
  {
    name: "validate",
    summary: "check a configuration file and print it in full",
    load: async () => (await import("./validate.js")).validate,
  },
  {
    name: "generate",
    summary: "continue a text with a trained model",
    load: async () => (await import("./generate.js")).generate,
  },
  {
    name: "ckpt",
    summary: "inspect, verify, compare and convert model files",
    load: async () => (await import("./ckpt/index.js")).ckpt,
  },
  {
    name: "hub",
    summary: "serve repositories to the nodes of a run, as the Hugging Face Hub does",
    load: async () => (await import("./hub.js")).hub,
  },
];
