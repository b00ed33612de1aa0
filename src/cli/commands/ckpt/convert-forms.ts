// The forms that `speedtronic ckpt convert` writes: a table of name, what it is, and how it is made. A new form is a
// line here. Inputs are recognised by what they are, not by options.

import { stat } from "node:fs/promises";
import type { TensorSet } from "../../../interchange/tools/tensor-set.js";
import { ConfigError } from "../../../util/errors.js";
import type { CliContext } from "../../context.js";
import type { ConvertRequest } from "./convert-request.js";

interface TargetForm {
  readonly name: string;
  readonly summary: string;
  convert(request: ConvertRequest, context: CliContext): Promise<void>;
}

export const targetForms: readonly TargetForm[] = [
  {
    name: "safetensors",
    summary: "one safetensors file; tied tensors stand under each of their names",
    convert: (request, context) =>
      rewrite(request, context, async (set, onBytes, streams) => {
        const { writeSingle } = await import("../../../interchange/tools/output.node.js");
        return writeSingle(request.output, streams, {
          force: request.force,
          metadata: set.metadata,
          onBytes,
        });
      }),
  },
  {
    name: "sharded",
    summary: "safetensors files of at most --max-size with an index",
    convert: (request, context) =>
      rewrite(request, context, async (set, onBytes, streams) => {
        const { writeShards } = await import("../../../interchange/tools/output.node.js");
        const { force, maxShardBytes, output } = request;
        return writeShards(output, streams, maxShardBytes, { force, metadata: set.metadata, onBytes });
      }),
  },
  {
    name: "checkpoint",
    summary: "a weights-only checkpoint; of a Python Speedtronic checkpoint a run to resume",
    convert: async (request, context) => {
      const { writeWeights } = await import("./convert-checkpoint.js");
      await writeWeights(request, context);
    },
  },
  {
    name: "huggingface",
    summary: "a folder that transformers loads (from a checkpoint or run)",
    convert: async ({ input, output, force }, context) => {
      const { readCheckpointInfo } = await import("../../../interchange/tools/checkpoint-input.node.js");
      const isFolder = (await stat(input).catch(() => undefined))?.isDirectory() === true;
      if (!isFolder || (await readCheckpointInfo(input)) === undefined) {
        throw new ConfigError(
          `--to huggingface: ${input} is no checkpoint or run, so it does not say which model it is; ` +
            "make a checkpoint of it first: --to checkpoint --config FILE",
          { code: "tools.needs_checkpoint", details: { path: input } },
        );
      }
      const { exportHuggingFace } = await import("../../../interchange/huggingface/index.js");
      const exported = await exportHuggingFace(input, output, { overwrite: force });
      const { formatBytes, plural } = await import("./format.js");
      context.out(
        `wrote ${output}: ${exported.architecture}, ${plural(exported.files.length, "file")}, weights ${formatBytes(exported.sizeBytes)}\n`,
      );
    },
  },
];

type Writer = (
  set: TensorSet,
  onBytes: (bytes: number, tensor: string) => void,
  streams: readonly import("../../../formats/safetensors/index.js").TensorStream[],
) => Promise<import("../../../interchange/tools/output.node.js").Written>;

/** Tensors as they are, into another container. */
async function rewrite(request: ConvertRequest, context: CliContext, write: Writer): Promise<void> {
  const { openTensors } = await import("../../../interchange/tools/open-tensors.node.js");
  const { modelPart } = await import("../../../interchange/tools/tensor-set.js");
  const { withAliases } = await import("../../../interchange/tools/alias-reader.js");
  const { tensorStreams } = await import("../../../formats/safetensors/index.js");
  const { reportWritten, using, withProgress } = await import("./result.js");
  const set = await openTensors(request.input);
  await using([set], async () => {
    const streams = tensorStreams(withAliases(modelPart(set), set.aliases));
    const written = await withProgress(context, "converting", streams, (onBytes) =>
      write(set, onBytes, streams),
    );
    reportWritten(context, written, streams.length);
    const left = [...set.parts.keys()].filter((name) => name !== "model");
    if (left.length > 0) context.out(`left out: ${left.join(", ")}\n`);
  });
}
