// Into a checkpoint of ours: weights alone from a Hugging Face folder, from another checkpoint, or from bare tensors
// with a configuration that says which model they are; a whole training state from a checkpoint of Python Speedtronic.

import { randomUUID } from "node:crypto";
import { stat } from "node:fs/promises";
import { join } from "node:path";
import { canonicalNames, checkFit } from "../../../checkpoint/names/index.js";
import { CheckpointStore } from "../../../checkpoint/store.js";
import { saveWeightsFolder } from "../../../checkpoint/weights-folder.js";
import { loadConfigFile } from "../../../config/load.node.js";
import { toPlainConfig } from "../../../config/serialize.js";
import type { TensorReader } from "../../../formats/safetensors/index.js";
import { openTorchFile } from "../../../formats/torch/index.node.js";
import { importHuggingFace, saveImportedModel } from "../../../interchange/huggingface/index.js";
import { importPythonCheckpoint, isPythonCheckpoint } from "../../../interchange/python-speedtronic/index.js";
import { renamedReader, withAliases } from "../../../interchange/tools/alias-reader.js";
import { planCast } from "../../../interchange/tools/cast.js";
import { openTensors } from "../../../interchange/tools/open-tensors.node.js";
import { modelPart, type TensorSet } from "../../../interchange/tools/tensor-set.js";
import type { TensorData } from "../../../tensor/dtype.js";
import { buildConfiguredModel } from "../../../train/configured-model.js";
import { currentEnvironment, defaultThreads } from "../../../train/environment.node.js";
import { ConfigError } from "../../../util/errors.js";
import type { CliContext } from "../../context.js";
import { type ConvertRequest, isHuggingFaceFolder } from "./convert-request.js";
import { formatBytes, plural, shownName } from "./format.js";
import { using } from "./result.js";

const floatDtypes = new Set(["F64", "F32", "F16", "BF16"]);

export async function writeWeights(request: ConvertRequest, context: CliContext): Promise<void> {
  const { input, output, force, contextLength } = request;
  const environment = currentEnvironment(defaultThreads(), undefined);
  if (request.config === undefined && (await isHuggingFaceFolder(input))) {
    const imported = await importHuggingFace(
      input,
      contextLength === undefined ? {} : { maxSeqLen: contextLength },
    );
    const info = await saveImportedModel(imported, output, { environment, overwrite: force });
    report(context, output, imported.model.stateDict().size, info.sizeBytes);
    if (imported.tokenizerFiles.length > 0) {
      context.out("left out: the tokenizer; text for this model has to be encoded elsewhere\n");
    }
    return;
  }
  if (contextLength !== undefined)
    throw new ConfigError(
      `--context ${contextLength}: ${input} is no Hugging Face folder with a config.json, or --config says already ` +
        "which model it is; leave --context out",
      { code: "tools.context_unused", details: { input, contextLength } },
    );
  if (request.config === undefined && (await importPython(request, context))) return;
  const set = await openTensors(input);
  await using([set], async () => {
    if (request.config !== undefined) {
      await fromTensors(request, request.config, set, context);
      return;
    }
    if (set.checkpoint === undefined) {
      throw new ConfigError(
        `--to checkpoint: ${set.location} does not say which model its tensors are; name a configuration with --config`,
        { code: "tools.needs_config", details: { path: set.location } },
      );
    }
    const { loadModel } = await import("../../../checkpoint/load.js");
    // Through the verifying reader: a damaged checkpoint must not become one with fresh hashes.
    const { content } = await loadModel(set.location);
    const info = await saveWeightsFolder(output, content, { overwrite: force });
    report(context, output, content.model.size, info.sizeBytes);
    context.out("left out: everything but the weights; training cannot be resumed from this folder\n");
  });
}

/** A whole training state, if the input is a checkpoint of Python Speedtronic: as a run that can be resumed. */
async function importPython({ input, output }: ConvertRequest, context: CliContext): Promise<boolean> {
  const isTorch = /\.(pt|pth|ckpt)$/i.test(input) && (await stat(input).catch(() => undefined))?.isFile();
  if (!isTorch) return false;
  const file = await openTorchFile(input);
  try {
    if (!isPythonCheckpoint(file)) return false;
    const { content, report } = await importPythonCheckpoint(file);
    const directory = join(output, "checkpoints");
    const store = new CheckpointStore({ directory, keepLast: null, runId: `import-${randomUUID()}` });
    const saved = await store.save(content);
    context.out(
      `wrote ${saved.path}: whole training state of step ${report.step}, ${formatBytes(saved.sizeBytes)}\n`,
    );
    const { missingMoments, leftOut, notes } = report;
    if (missingMoments.length > 0) {
      context.out(
        `${plural(missingMoments.length, "parameter")} without moments in the file, which start at zero:\n`,
      );
      for (const name of missingMoments) context.out(`  ${shownName(name)}\n`);
    }
    for (const text of leftOut) context.out(`left out: ${shownName(text)}\n`);
    for (const text of notes) context.out(`note: ${shownName(text)}\n`);
    return true;
  } finally {
    await file.close();
  }
}

async function fromTensors(
  { output, force }: ConvertRequest,
  configPath: string,
  set: TensorSet,
  context: CliContext,
): Promise<void> {
  const config = await loadConfigFile(configPath);
  const state = buildConfiguredModel(config).stateDict();
  const reader = fitted(withAliases(modelPart(set), set.aliases), state);
  const { streams } = planCast(reader, { to: "F32" });
  const plain = toPlainConfig(config);
  const info = await saveWeightsFolder(
    output,
    {
      model: streams,
      config: plain,
      environment: currentEnvironment(defaultThreads(), undefined),
      fingerprint: { model: { ...(plain.model as Record<string, unknown>) } },
    },
    { overwrite: force },
  );
  report(context, output, streams.length, info.sizeBytes);
}

/** The tensors under the model's names; strict: every one must be there and fit. */
function fitted(reader: TensorReader, state: ReadonlyMap<string, TensorData>): TensorReader {
  const tied = new Map<unknown, string[]>();
  for (const [name, { data }] of state) tied.set(data, [...(tied.get(data) ?? []), name]);
  const mapping = canonicalNames(reader.entries.keys(), new Set(state.keys()));
  const found = new Map([...mapping].map(([from, to]) => [to, reader.entry(from)]));
  const expected = [...tied.values()].map((names) => {
    const { dtype, shape } = state.get(names[0]!)!;
    return { names, dtype, shape, accepts: (other: string) => floatDtypes.has(other) };
  });
  const { loaded } = checkFit(expected, found);
  const originals = new Map([...mapping].map(([from, to]) => [to, from]));
  return renamedReader(reader, new Map(loaded.map((name) => [name, originals.get(name)!])));
}

function report(context: CliContext, output: string, tensors: number, sizeBytes: number): void {
  context.out(
    `wrote ${output}: weights-only checkpoint, ${plural(tensors, "tensor")}, ${formatBytes(sizeBytes)}\n`,
  );
}
