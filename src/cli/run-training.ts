// What `speedtronic train` does once its options are read: build the runtime, show progress, turn signals into a
// clean stop, and print the closing line.

import type { SpeedtronicConfig } from "../config/schema.js";
import { formatPythonFloat } from "../observe/number-text.js";
import type { InitialWeights } from "../train/initial-weights.node.js";
import type { Resume } from "../train/open-checkpoints.node.js";
import type { TrainResult } from "../train/result.js";
import { buildRuntime } from "../train/runtime.node.js";
import { onStopSignals } from "../util/signals.node.js";
import type { CliContext } from "./context.js";
import { exitCodeOfStop } from "./exit-codes.js";

export type ResumeRequest =
  | { readonly kind: "none" }
  /** The newest good checkpoint; an error if there is none. */
  | { readonly kind: "newest" }
  /** The newest good checkpoint, or a fresh start with a warning. */
  | { readonly kind: "auto" }
  | { readonly kind: "path"; readonly path: string };

export interface TrainRequest {
  readonly config: SpeedtronicConfig;
  readonly resume: ResumeRequest;
  /** Fields in which the checkpoint may differ from the configuration. */
  readonly acceptDifferences?: readonly string[];
  readonly initialWeights?: InitialWeights;
  /** Where to write a trace of the time spent; true: in the output folder. */
  readonly profile?: true | string;
  /** The command goes on by itself when it is given again. */
  readonly resumesByItself?: boolean;
}

export async function runTraining(request: TrainRequest, context: CliContext): Promise<number> {
  const { config, resume, acceptDifferences = [], initialWeights, profile } = request;
  const stop = new AbortController();
  const saving = config.checkpoint.enabled
    ? "saving after this step"
    : "ending after this step, nothing is saved";
  // The first signal asks for an orderly end; the second takes the process down at once. A terminal shows the key
  // as ^C at the end of the status line.
  const signals = onStopSignals((signal) => {
    context.err(
      `${context.isTerminal ? "\n" : ""}speedtronic: ${signal}: ${saving}; once more stops at once\n`,
    );
    stop.abort(signal);
  });
  // Nobody reads the progress any more, but the work is wanted: end it with a checkpoint.
  context.onOutputClosed = () => {
    context.err(`speedtronic: nobody reads the output any more: ${saving}\n`);
    stop.abort("output closed");
  };
  // A full disk under a redirected log is no reason to lose a run: metrics files and checkpoints have their own care.
  context.onOutputFailed = (error) => {
    context.err(
      `speedtronic: warning: standard output is lost (${error.message}); training goes on without it\n`,
    );
  };
  try {
    const options = resumeOption(resume);
    const runtime = await buildRuntime(config, {
      ...(options === undefined ? {} : { resume: options }),
      acceptDifferences,
      ...(initialWeights ? { initialWeights } : {}),
      ...(profile === undefined ? {} : { profile }),
      signal: stop.signal,
      stream: context.stream,
    });
    let result: TrainResult;
    try {
      result = await runtime.trainer.fit();
    } finally {
      await runtime.close();
    }
    if (result.stop.kind === "stopped" && config.checkpoint.enabled && result.steps > 0)
      context.err(
        `speedtronic: the same command${request.resumesByItself ? "" : " with --resume"} goes on from here\n`,
      );
    context.out(`${closingLine(result)}\n`);
    return exitCodeOfStop(result.stop.kind === "target" ? undefined : result.stop.cause);
  } finally {
    signals.close();
  }
}

function resumeOption(request: ResumeRequest): Resume | undefined {
  switch (request.kind) {
    case "none":
      return undefined;
    case "newest":
      return true;
    case "auto":
      return "auto";
    case "path":
      return { path: request.path };
  }
}

/** The Python system's closing line; `loss=None` when there was nothing to do. */
function closingLine({ steps, samples, tokens, finalLoss, stop }: TrainResult): string {
  const loss = finalLoss === null ? "None" : formatPythonFloat(finalLoss);
  const verb = stop.kind === "target" ? "completed" : `stopped by ${stop.cause}`;
  return `${verb} steps=${steps} samples=${samples} tokens=${tokens} loss=${loss}`;
}
