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
    name: "schema",
    summary: "print the schema of configuration files, for editors, or what a key means",
    load: async () => (await import("./schema.js")).schema,
  },
  {
    name: "completion",
    summary: "print a script that completes this command line in a shell",
    load: async () => (await import("./completion.js")).completion,
  },
  {
    name: "doctor",
    summary: "check everything that a run needs before it is started",
    load: async () => (await import("./doctor.js")).doctor,
  },
  {
    name: "plan",
    summary: "say what a run will need: parameters, work, memory, disk, time",
    load: async () => (await import("./plan.js")).plan,
  },
  {
    name: "data",
    summary: "tokenise data ahead of training",
    load: async () => (await import("./data/index.js")).data,
  },
  {
    name: "report",
    summary: "write a page with the curves and settings of runs",
    load: async () => (await import("./report.js")).report,
  },
  {
    name: "generate",
    summary: "continue a text with a trained model",
    load: async () => (await import("./generate.js")).generate,
  },
  {
    name: "aggregate",
    summary: "publish the versions of a run that several machines train",
    load: async () => (await import("./aggregate.js")).aggregate,
  },
  {
    name: "ckpt",
    summary: "inspect, verify, compare and convert model files",
    load: async () => (await import("./ckpt/index.js")).ckpt,
  },
  {
    name: "init",
    summary: "set up a run for many machines in a repository",
    load: async () => (await import("./init.js")).init,
  },
  {
    name: "join",
    summary: "take part in a run that was set up in a repository",
    load: async () => (await import("./join.js")).join,
  },
  {
    name: "status",
    summary: "show versions, members and updates of a run",
    load: async () => (await import("./status.js")).status,
  },
  {
    name: "verify",
    summary: "compute the versions of a run again and compare",
    load: async () => (await import("./verify.js")).verify,
  },
  {
    name: "hub",
    summary: "serve repositories to the nodes of a run, as the Hugging Face Hub does",
    load: async () => (await import("./hub.js")).hub,
  },
  {
    name: "simulate",
    summary: "check the protocol with a simulated fleet in which things go wrong",
    load: async () => (await import("./simulate.js")).simulate,
  },
];
