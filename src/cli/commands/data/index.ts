// `speedtronic data`: work on training data. Each tool is a file beside this one and a line here.

import type { CliGroup } from "../../command.js";

export const data: CliGroup = {
  configure(command) {
    command
      .description("Work on training data ahead of training.")
      .usage("<command> [options]")
      .helpCommand("help [command]", "print help for a command");
  },
  commands: [
    {
      name: "prepare",
      summary: "tokenise data once, into a folder to train from",
      load: async () => (await import("./prepare.js")).prepare,
    },
  ],
};
