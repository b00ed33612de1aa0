// Sinks as data: what a configuration or a program asks for. Opens nothing.

import type { LogLevel } from "./level.js";

interface Cadence {
  /** Of the `train_step` events, each n-th; the first and the last always. */
  readonly everySteps?: number;
}

export type SinkSpec =
  | ({ readonly type: "console"; readonly level?: LogLevel } & Cadence)
  | ({ readonly type: "text"; readonly path: string; readonly level?: LogLevel } & Cadence)
  | ({ readonly type: "jsonl"; readonly path: string } & Cadence)
  | ({ readonly type: "tensorboard"; readonly path: string } & Cadence)
  | { readonly type: "trace"; readonly path: string }
  | ({
      readonly type: "wandb";
      readonly project: string;
      readonly entity?: string;
      readonly runName?: string;
    } & Cadence)
  | ({
      readonly type: "callback";
      /** File (relative to the working directory) or package whose export is the hook. */
      readonly module: string;
      /** Name of the export; default: `onEvent`, else the default one. */
      readonly exportName?: string;
    } & Cadence);
