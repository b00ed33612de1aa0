// Events as TensorBoard event files: numbers as curves over the step, samples and the run's facts as texts. One file
// per process in the folder, as TensorBoard expects it; a resumed run adds one that replaces what was done again.

import { join } from "node:path";
import { encodeFileHead, encodeRestart, encodeScalars, encodeText } from "../formats/tensorboard/index.js";
import { LineFile, type LineFileOptions } from "./line-file.node.js";
import { scalarsOf, stepOf } from "./scalars.js";
import type { EventContext, EventPayload, Sink } from "./sink.js";

export interface TensorBoardSinkOptions extends Pick<LineFileOptions, "flushBytes" | "flushIntervalMs"> {
  everySteps?: number;
}

let filesMade = 0;

/** Writes into the folder `path`, which is created with the first event. */
export function tensorBoardSink(path: string, options: TensorBoardSinkOptions = {}): Sink {
  let file: LineFile | undefined;
  const write = (bytes: Uint8Array): void => file?.appendBytes(Buffer.from(bytes));

  const open = ({ time, runId }: EventContext): void => {
    // The number keeps the files of one process apart, and in order.
    const seconds = String(Math.floor(time.getTime() / 1000)).padStart(10, "0");
    filesMade += 1;
    const name = `events.out.tfevents.${seconds}.${fileSafe(runId)}.${process.pid}.${filesMade}`;
    file = new LineFile(join(path, name), options);
    write(encodeFileHead(time.getTime() / 1000));
  };

  return {
    name: `TensorBoard folder ${path}`,
    everySteps: options.everySteps ?? 1,
    write(event, payload, context) {
      if (file === undefined) open(context);
      const wallTime = context.time.getTime() / 1000;
      const { start_step: start } = payload;
      if (event === "train_start" && typeof start === "number" && start > 0)
        write(encodeRestart({ wallTime, step: start + 1 }));
      const step = stepOf(event, payload) ?? (typeof start === "number" ? start : 0);
      const scalars = scalarsOf(event, payload);
      if (scalars.size > 0) write(encodeScalars({ wallTime, step }, scalars));
      for (const [tag, text] of textsOf(event, payload)) write(encodeText({ wallTime, step }, tag, text));
      if (event !== "train_step") file?.flush();
    },
    flush: () => file?.flush(),
    close: () => file?.close(),
  };
}

const fileSafe = (text: string): string => text.replaceAll(/[^\w-]/g, "_").slice(0, 60);

/** Four blanks make a block of code of each line in Markdown: nothing in it is markup. */
const asCode = (text: string): string =>
  text
    .split("\n")
    .map((line) => `    ${line}`)
    .join("\n");

function textsOf(event: string, payload: EventPayload): [tag: string, text: string][] {
  if (event === "sample") return [["sample", asCode(`${payload.prompt ?? ""}${payload.text ?? ""}`)]];
  if (event !== "train_start" && event !== "run_info") return [];
  const { time: _, elapsed_s: __, ...facts } = payload;
  return [[event, asCode(JSON.stringify(facts, null, 2))]];
}
