// `speedtronic ckpt remap`: tensors under other names.

import { escapeControls } from "../../../observe/number-text.js";
import { ConfigError } from "../../../util/errors.js";
import { type CliCommand, collect, requireOptions } from "../../command.js";
import { ExitCode } from "../../exit-codes.js";
import { addOutputOptions, type OutputFlags } from "./inputs.js";
import { reportWritten, using, withProgress } from "./result.js";

interface RemapFlags extends Partial<OutputFlags> {
  readonly rule?: readonly string[];
  readonly rules?: string;
  readonly stripWrappers?: boolean;
  readonly dryRun?: boolean;
}

export const remap: CliCommand = {
  configure(command) {
    addOutputOptions(
      command
        .argument("<model>", "file, folder, run or address")
        .option("-r, --rule <rule>", "a rule; may be given several times, applied in order", collect)
        .option("--rules <file>", "a JSON file with a list of rules, applied before --rule")
        .option("--strip-wrappers", "first remove module., _orig_mod. and other wrappers' prefixes")
        .option("-n, --dry-run", "print old → new and write nothing"),
      "the safetensors file to write",
    )
      .description(
        "Rename the tensors of a model. Rules are ordered, and each works on what the ones before have made of a " +
          "name. A rule that renames nothing, and two tensors that would get one name, are errors.",
      )
      .addHelpText(
        "after",
        `
Rules:
  old=>new                                 this one name
  "prefix:model.=>"                        the start of a name
  "pattern:(.*)\\.gamma=>$1.weight"         a regular expression for the whole name, with captures

A file of rules: [{"prefix": "h.", "to": "layers."}, {"pattern": "(.*)\\\\.gamma", "to": "$1.weight"}]

Examples:
  speedtronic ckpt remap model.safetensors --rule "prefix:transformer.h.=>layers." --dry-run
  speedtronic ckpt remap compiled.safetensors --strip-wrappers -o model.safetensors
  speedtronic ckpt remap model.safetensors --rules rules.json -o renamed.safetensors
`,
      );
  },

  async run(command, context) {
    const options = command.opts<RemapFlags>();
    if (options.dryRun !== true) requireOptions(command, ["output"]);
    const names = await import("../../../checkpoint/names/index.js");
    const { openTensors } = await import("../../../interchange/tools/open-tensors.node.js");
    const { renamedReader, withAliases } = await import("../../../interchange/tools/alias-reader.js");
    const { requireFree, writeSingle } = await import("../../../interchange/tools/output.node.js");
    const { modelPart } = await import("../../../interchange/tools/tensor-set.js");
    const { tensorStreams } = await import("../../../formats/safetensors/index.js");
    const rules = [
      ...(options.rules === undefined ? [] : names.parseRenameRules(await readRules(options.rules))),
      ...(options.rule ?? []).map(names.parseRenameRule),
    ];
    if (rules.length === 0 && options.stripWrappers !== true) {
      throw new ConfigError("no rules: give --rule, --rules or --strip-wrappers", {
        code: "tools.no_rules",
      });
    }
    if (options.dryRun !== true) await requireFree(options.output!, options.force);
    const set = await openTensors(command.args[0]!);
    return using([set], async () => {
      const reader = withAliases(modelPart(set), set.aliases);
      const bare = options.stripWrappers
        ? names.stripWrappers(reader.entries.keys())
        : new Map([...reader.entries.keys()].map((name) => [name, name]));
      const plan = names.planRenames(bare.values(), rules);
      const whole = new Map([...bare].map(([name, stripped]) => [name, plan.mapping.get(stripped)!]));
      const renames = [...whole].filter(([from, to]) => from !== to).map(([from, to]) => ({ from, to }));
      const complete = { ...plan, mapping: whole, renames };
      if (options.dryRun) {
        context.out(escapeControls(names.formatPlan(complete), "\n"));
        return plan.collisions.length + plan.unusedRules.length > 0 ? ExitCode.failure : ExitCode.ok;
      }
      names.requireCleanPlan(complete);
      const renamed = renamedReader(reader, new Map([...whole].map(([from, to]) => [to, from])));
      const streams = tensorStreams(renamed);
      const { output, force = false } = options;
      const written = await withProgress(context, "writing", streams, (onBytes) =>
        writeSingle(output!, streams, { force, metadata: set.metadata, onBytes }),
      );
      reportWritten(context, written, streams.length);
      context.out(`${renames.length} of ${whole.size} names changed\n`);
      return ExitCode.ok;
    });
  },
};

async function readRules(path: string): Promise<unknown> {
  const { readFile } = await import("node:fs/promises");
  let text: string;
  try {
    text = await readFile(path, "utf8");
  } catch (cause) {
    throw new ConfigError(`${path}: the rules cannot be read (${(cause as Error).message})`, {
      code: "tools.rules_unreadable",
      details: { path },
      cause,
    });
  }
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new ConfigError(`${path}: the rules are not valid JSON (${(cause as Error).message})`, {
      code: "tools.rules_unreadable",
      details: { path },
      cause,
    });
  }
}
