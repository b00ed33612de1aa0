// `speedtronic ckpt`: tools for files of model weights. Each tool is a file beside this one and a line here.

import type { CliGroup } from "../../command.js";

export const ckpt: CliGroup = {
  configure(command) {
    command
      .description(
        "Look at, check, compare and rewrite model files, tensor by tensor: a model may be larger than memory. " +
          "Nothing in a file is ever executed, and no output is overwritten without --force.",
      )
      .usage("<command> [options]")
      .helpCommand("help [command]", "print help for a command")
      .addHelpText(
        "after",
        `
Wherever a model is asked for, give any of these:
  runs/demo                         a run: its newest checkpoint
  runs/demo/checkpoints/step-…      one checkpoint
  model.safetensors                 a file
  model.safetensors.index.json      a sharded set
  some/folder                       a folder with one of these, as on the Hugging Face Hub
  model.pt, pytorch_model.bin       a PyTorch file
  https://host/model.safetensors    an address: only the needed ranges are read

Examples:
  speedtronic ckpt inspect runs/demo
  speedtronic ckpt diff runs/demo before.safetensors
  speedtronic ckpt convert runs/demo --to safetensors -o demo.safetensors
  speedtronic ckpt stats --help                          options and examples of one command
`,
      );
  },
  commands: [
    {
      name: "inspect",
      summary: "names, dtypes, shapes and sizes",
      load: async () => (await import("./inspect.js")).inspect,
    },
    {
      name: "stats",
      summary: "min, max, mean, std, norm, NaN and a histogram of every tensor",
      load: async () => (await import("./stats.js")).stats,
    },
    {
      name: "verify",
      summary: "hashes, structure and values: is anything damaged?",
      load: async () => (await import("./verify.js")).verify,
    },
    {
      name: "diff",
      summary: "what differs between two models",
      load: async () => (await import("./diff.js")).diff,
    },
    {
      name: "remap",
      summary: "rename tensors by rules",
      load: async () => (await import("./remap.js")).remap,
    },
    {
      name: "cast",
      summary: "change the precision: bf16, f16, f32",
      load: async () => (await import("./cast.js")).cast,
    },
    {
      name: "merge",
      summary: "one file out of a sharded set",
      load: async () => (await import("./merge.js")).merge,
    },
    {
      name: "merge-lora",
      summary: "one model out of adapters and the weights under them",
      load: async () => (await import("./merge-lora.js")).mergeLora,
    },
    {
      name: "shard",
      summary: "a sharded set out of one file",
      load: async () => (await import("./shard.js")).shard,
    },
    {
      name: "convert",
      summary: "from one form into another",
      load: async () => (await import("./convert.js")).convert,
    },
    {
      name: "average",
      summary: "the average of several models",
      load: async () => (await import("./average.js")).average,
    },
  ],
};
