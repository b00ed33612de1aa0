// What `speedtronic train` does once its options are read: build the runtime, show progress, turn signals into a
// clean stop, and print the closing line.

import type { SpeedtronicConfig } from "../config/schema.js";
import { formatPythonFloat } from "../observe/number-text.js";
import type { TrainResult } from "../train/result.js";
import { buildRuntime, type Resume } from "../train/runtime.node.js";
import { onStopSignals } from "../util/signals.node.js";
import type { CliContext } from "./context.js";
import { ExitCode } from "./exit-codes.js";

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
}

export async function runTraining({ config, resume }: TrainRequest, context: CliContext): Promise<number> {
  const stop = new AbortController();
  // The first signal asks for an orderly end; the second takes the process down at once.
  const signals = onStopSignals((signal) => {
    context.err(`\nspeedtronic: ${signal}: saving after this step; once more to stop at once\n`);
    stop.abort(signal);
  });
  // Nobody reads the progress any more, but the work is wanted: end it with a checkpoint.
  context.onOutputClosed = () => stop.abort("output closed");
  try {
    const options = resumeOption(resume);
    const runtime = await buildRuntime(config, {
      ...(options === undefined ? {} : { resume: options }),
      signal: stop.signal,
      stream: process.stdout,
    });
    let result: TrainResult;
    try {
      result = await runtime.trainer.fit();
    } finally {
      await runtime.close();
    }
    context.out(`${closingLine(result)}\n`);
    return exitCode(result);
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

function exitCode({ stop }: TrainResult): number {
  if (stop.kind === "target") return ExitCode.ok;
  if (stop.cause === "SIGINT") return ExitCode.interrupted;
  if (stop.cause === "SIGTERM") return ExitCode.terminated;
  return ExitCode.ok;
}
