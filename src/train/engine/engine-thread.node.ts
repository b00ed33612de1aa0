// Entry of the worker thread: makes one local engine and answers requests to it, one after another.

import { parentPort } from "node:worker_threads";
import type { Graph } from "../../tensor/trace/graph.js";
import { invariant, SpeedtronicError } from "../../util/errors.js";
import { collectGarbage } from "../../util/garbage.node.js";
import { loadEnginePlugins } from "../plugins/run-plugin.node.js";
import type { EngineOptions, TrainEngine } from "./contract.js";
import { createLocalEngine } from "./local-engine.node.js";

export interface EngineRequest {
  readonly id: number;
  readonly method: "create" | keyof TrainEngine;
  readonly args: readonly unknown[];
}

/** An error as it crosses the thread border. */
export interface ErrorRecord {
  readonly kind: string;
  readonly message: string;
  readonly code: string;
  readonly details: Record<string, unknown>;
  readonly stack: string | undefined;
}

export type EngineReply =
  | { readonly id: number; readonly value: unknown }
  | { readonly id: number; readonly error: ErrorRecord };

invariant(parentPort, "the engine thread runs in a worker");
const port = parentPort;
let engine: TrainEngine | undefined;
/** Requests run in the order in which they came: an evaluation never sees half an update. */
let last: Promise<unknown> = Promise.resolve();

port.on("message", (request: EngineRequest) => {
  last = last.then(async () => {
    try {
      const value = await answer(request);
      port.postMessage({ id: request.id, value } satisfies EngineReply, buffersOf(value));
    } catch (error) {
      port.postMessage({ id: request.id, error: recordOf(error) } satisfies EngineReply);
    }
  });
});

async function answer({ method, args }: EngineRequest): Promise<unknown> {
  if (method === "create") {
    const options = args[0] as EngineOptions;
    await loadEnginePlugins(options.plugins ?? []);
    engine = await createLocalEngine(options);
    return undefined;
  }
  // A run that could not be built closes what was never created.
  if (method === "close" && !engine) return undefined;
  invariant(engine, "an engine is created before it is used");
  if (method === "addProgram") {
    const program = await engine.addProgram(args[0] as Graph);
    // A graph's way through the passes to its encoded model leaves several times its size behind.
    collectGarbage();
    return program;
  }
  return (engine[method] as (...args: readonly unknown[]) => Promise<unknown>).apply(
    engine,
    args as unknown[],
  );
}

/** Buffers of arrays in a reply: moved instead of copied, since the engine hands out copies anyway. Shared ones stay. */
function buffersOf(value: unknown): ArrayBuffer[] {
  const buffers = new Set<ArrayBuffer>();
  const visit = (part: unknown) => {
    if (ArrayBuffer.isView(part)) {
      if (part.buffer instanceof ArrayBuffer) buffers.add(part.buffer);
    } else if (part instanceof Map) for (const member of part.values()) visit(member);
    else if (part && typeof part === "object") for (const member of Object.values(part)) visit(member);
  };
  visit(value);
  return [...buffers];
}

function recordOf(error: unknown): ErrorRecord {
  const { name, message, stack } = error instanceof Error ? error : new Error(String(error));
  const typed = error instanceof SpeedtronicError ? error : undefined;
  return {
    kind: name,
    message,
    code: typed?.code ?? "internal.engine",
    details: { ...typed?.details },
    stack,
  };
}
